"""Bars at the foot of a terminal: one for each training under way, Snakemake's log above them."""

import io
import logging
import os
import sys
from pathlib import Path

import pytest

from flatfed.snakemake_support import progress_bars
from screen import shown

SOURCE = Path(progress_bars.__file__).resolve().parents[2]

#: Plays a Snakemake that logs to a terminal; ``draw`` instead of the twice a second.
PLAY = """
import json, logging, sys
from pathlib import Path
from flatfed.snakemake_support import progress_bars

progress_bars.Bars._watch = lambda bars: None
logger = logging.getLogger("played")
logger.setLevel("INFO")
logger.addHandler(logging.StreamHandler(sys.stderr))
progress_bars.attach(logger)
draw = logger.handlers[-1].draw

def event(name, **about):
    logger.info(f"LOG {name} {about.get('jobid', '')} of Snakemake's", extra={"event": name, **about})

def begin(number, rule="train"):
    event("job_info", jobid=number, rule_name=rule, output=[f"runs/{number}/metrics.csv (update)", "x"])

def train(number, done, accuracy=None, pace=None, run="a-protocol/a-split/{}/seed1"):
    folder = Path("runs", str(number))
    folder.mkdir(parents=True, exist_ok=True)
    state = {"run": run.format(f"method{number}"), "round": done, "rounds": 20, "unseen": "test"}
    (folder / "progress.json").write_text(json.dumps({**state, "accuracy": accuracy, "pace": pace}))
"""


def play(folder, script, **size):
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "TERM": "xterm"}
    status, screen = shown([sys.executable, "-c", PLAY + script], cwd=folder, env=environment, **size)
    assert status == 0, screen.text
    return screen


def test_each_training_has_a_bar_and_the_log_stays_whole(tmp_path):
    screen = play(
        tmp_path,
        """
begin(1); begin(2); begin(3, "fetch")
train(1, 5, 0.612, 2.5); train(2, 10)
draw()
event("job_finished", job_id=3)
event("progress", done=1, total=7)
train(2, 11, 0.5, 100.0)
draw()
logger.info("two lines\\nat once")
event("job_error", jobid=2)
begin(4); train(4, 1, 0.1, 1.0)
draw()
begin(2)
draw()
""",
    )
    with_two = [state.splitlines() for state in screen.seen if "method1" in state and "method2" in state]
    lines = {name: line for line in with_two[-1] for name in ("method1", "method2") if name in line}
    assert len(lines) == 2, "each has a line of its own"
    assert "a-protocol/a-split/method1/seed1  25%|" in lines["method1"]
    assert lines["method1"].endswith("| 5/20  test 61.20 %  2.5 s a round  38 s left")
    assert any("method2/seed1  50%|" in state for state in screen.seen)
    assert any("method4" in state and "method2" not in state for state in screen.seen), "an ended job's bar is gone"
    told = [
        *(f"LOG job_info {number} of Snakemake's" for number in (1, 2, 3)),
        *("LOG job_finished  of Snakemake's", "LOG progress  of Snakemake's", "two lines", "at once"),
        *("LOG job_error 2 of Snakemake's", "LOG job_info 4 of Snakemake's", "LOG job_info 2 of Snakemake's"),
    ]
    assert screen.text.strip().splitlines() == told, "in the end there is the log, and nothing else"


def test_a_narrow_terminal_shortens_the_label(tmp_path):
    screen = play(tmp_path, "begin(1); train(1, 5, 0.612, 2.5); draw()", columns=80)
    line = next(line for state in screen.seen for line in state.splitlines() if "5/20" in line)
    assert len(line) <= 80
    assert "/method1/seed1  25%|" in line and line.endswith("38 s left")


def test_a_low_terminal_shows_as_many_as_fit(tmp_path):
    screen = play(tmp_path, "for k in range(9): begin(k); train(k, k)\ndraw()", rows=6)
    assert any("more hidden" in state for state in screen.seen)
    assert not any("method8" in state for state in screen.seen)


def test_a_state_that_cannot_be_read_is_no_bar(tmp_path):
    screen = play(tmp_path, "begin(1); train(1, 5)\nPath('runs/1/progress.json').write_text('')\ndraw()")
    assert "5/20" not in "".join(screen.seen)


@pytest.mark.parametrize(("terminal", "kind"), [(False, "xterm"), (True, "dumb")])
def test_where_there_is_no_terminal_nothing_is_drawn(monkeypatch, terminal, kind):
    monkeypatch.setenv("TERM", kind)
    stream = io.StringIO()
    stream.isatty = lambda: terminal
    logger = logging.Logger("played")
    logger.addHandler(logging.StreamHandler(stream))
    progress_bars.attach(logger)
    assert [type(handler) for handler in logger.handlers] == [logging.StreamHandler]
