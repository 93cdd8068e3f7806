"""The reports of a training: lines in its log, at sensible intervals, or a bar."""

import io
import sys
from types import SimpleNamespace

import pytest

from flatfed.engine.job import progress, reporter
from flatfed.engine.job.reporter import Reporter


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still; ``clock[0]`` seconds."""
    now = [1000.0]
    monkeypatch.setattr(reporter.time, "monotonic", lambda: now[0])
    return now


def rounds(reporter, clock, numbers, seconds):
    for number in numbers:
        clock[0] += seconds
        line = {"round": number, "test_accuracy": 0.612, "train_loss": 1.0}
        reporter.after_round(SimpleNamespace(round=number), line)


def test_a_run_without_time_has_no_shares():
    assert progress.time_spent({"training": 0.0, "evaluation": 0.0}) == "done in 0 s"


@pytest.mark.parametrize(
    ("seconds", "number", "lines"),
    [
        (0.01, 1000, 2),  # ten seconds: the first round and the last
        (1.0, 600, 41),  # ten minutes: every 15 s
        (100.0, 1000, 180),  # a day: every round for 50 rounds, every second one for 50 more, and so on
        (1000.0, 5, 5),  # no more than there are rounds
    ],
)
def test_a_log_grows_slowly(clock, capsys, seconds, number, lines):
    with Reporter("a", number, 0) as report:
        rounds(report, clock, range(1, number + 1), seconds)
    output = capsys.readouterr().err.splitlines()
    assert len(output) == lines and output[-1].startswith(f"a: round {number}/{number}  ")


def test_an_accuracy_of_an_earlier_round_has_its_round(clock, capsys):
    with Reporter("a", 4, 0) as report:
        rounds(report, clock, [3], 20.0)
        clock[0] += 20
        report.after_round(SimpleNamespace(round=4), None)
    evaluated, later = capsys.readouterr().err.splitlines()
    assert "round 3/4  test accuracy 61.20 %  " in evaluated
    assert "round 4/4  test accuracy 61.20 % (round 3)  " in later


def test_a_terminal_has_a_bar(clock, monkeypatch):
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.setattr(sys, "stderr", stream := io.StringIO())
    stream.isatty = lambda: True
    with Reporter("protocol/split/fedavg/seed1", 3, 0) as report:
        rounds(report, clock, [1, 2, 3], 1.0)
    *bars, cleared, end = stream.getvalue().split("\r")
    assert bars[3].startswith("protocol/split/fedavg/seed1  67%|") and not cleared.strip()
    assert end == "protocol/split/fedavg/seed1: round 3/3  test accuracy 61.20 %  1 s a round  0 s left\n"
