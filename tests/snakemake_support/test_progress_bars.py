"""Bars at the foot of a terminal: one for each training under way, Snakemake's log above them."""

import io
import logging
import os
import sys

import pytest

from flatfed.snakemake_support import progress_bars
from repository import SRC
from screen import shown

#: Plays a Snakemake that logs to a terminal; ``draw`` instead of twice a second.
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
    logger.info(f"{name} {about.get('jobid', '')}".strip(), extra={"event": name, **about})

def begin(number, rule="train"):
    event("job_info", jobid=number, rule_name=rule, output=[f"runs/{number}/metrics.csv (update)", "x"])

def train(number, done, accuracy=None, pace=None):
    folder = Path("runs", str(number))
    folder.mkdir(parents=True, exist_ok=True)
    state = {"run": f"a-protocol/a-split/method{number}/seed1", "round": done, "rounds": 20, "unseen": "test"}
    (folder / "progress.json").write_text(json.dumps({**state, "accuracy": accuracy, "pace": pace}))
"""


def play(folder, script, **size):
    environment = {**os.environ, "PYTHONPATH": str(SRC), "TERM": "xterm"}
    status, screen = shown([sys.executable, "-c", PLAY + script], cwd=folder, env=environment, **size)
    assert status == 0, screen.text
    return screen


def test_each_training_has_a_bar_and_the_log_stays_whole(tmp_path):
    script = """
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
begin(2); train(2, 19); Path("runs/2/progress.json").write_text("")
draw()
"""
    screen = play(tmp_path, script)
    with_two = [state for state in screen.seen if "method1" in state and "method2" in state]
    (line,) = (line for line in with_two[-1].splitlines() if "method1" in line)
    assert "a-protocol/a-split/method1/seed1  25%|" in line and "method2" not in line
    assert line.endswith("| 5/20  test 61.20 %  2.5 s a round  38 s left")
    assert any("method2/seed1  50%|" in state for state in screen.seen)
    assert any("method4" in state and "method2" not in state for state in screen.seen), "an ended job's bar is gone"
    assert not any("19/20" in state for state in screen.seen), "a state that cannot be read is no bar"
    log = ["job_info 1", "job_info 2", "job_info 3", "job_finished", "progress", "two lines", "at once"]
    log += ["job_error 2", "job_info 4", "job_info 2"]
    assert screen.text.strip().splitlines() == log, "in the end there is the log, and nothing else"


def test_a_line_after_the_last_bar_begins_in_the_first_column(tmp_path):
    """The bars vanish from the top: tqdm's ``close`` alone leaves the cursor behind the second one's text."""
    script = """
begin(1); begin(2); train(1, 5); train(2, 5); draw()
event("job_finished", job_id=1); draw()
event("job_finished", job_id=2); draw()
logger.info("after the trainings")
begin(3); begin(4); train(3, 5); train(4, 5); draw()
logger.handlers[-1].close()
logger.info("after all")
"""
    log = [f"job_info {number}" for number in (1, 2)] + ["job_finished", "job_finished", "after the trainings"]
    log += ["job_info 3", "job_info 4", "after all"]
    assert play(tmp_path, script).text.rstrip().splitlines() == log


def test_a_line_written_while_bars_appear_and_vanish_stays_whole(tmp_path):
    script = """
import threading
sys.setswitchinterval(1e-6)  # seconds
writer = threading.Thread(target=lambda: [logger.info(f"line {k}") for k in range(3000)])
writer.start()
while writer.is_alive():
    begin(1); train(1, 5); draw()
    Path("runs/1/progress.json").write_text(""); draw()
"""
    lines = play(tmp_path, script).text.splitlines()
    assert [line for line in lines if not line.startswith("job_info")] == [f"line {k}" for k in range(3000)]


def test_a_small_terminal_shortens_labels_and_shows_as_many_bars_as_fit(tmp_path):
    screen = play(tmp_path, "for k in range(9): begin(k); train(k, k, 0.612, 2.5)\ndraw()", rows=6, columns=80)
    line = next(line for state in screen.seen for line in state.splitlines() if "| 1/20" in line)
    assert "/method1/seed1   5%|" in line and line.endswith("48 s left") and len(line) <= 80
    assert any("more hidden" in state for state in screen.seen)
    assert not any("method8" in state for state in screen.seen)


@pytest.mark.parametrize(("terminal", "kind"), [(False, "xterm"), (True, "dumb")])
def test_without_a_terminal_nothing_is_drawn(monkeypatch, terminal, kind):
    monkeypatch.setenv("TERM", kind)
    stream = io.StringIO()
    stream.isatty = lambda: terminal
    logger = logging.Logger("played")
    logger.addHandler(logging.StreamHandler(stream))
    progress_bars.attach(logger)
    assert [type(handler) for handler in logger.handlers] == [logging.StreamHandler]
