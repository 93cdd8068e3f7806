"""Callbacks of users: files in ``callbacks`` of config.yaml, called around each round of a training."""

import re
import sys
from itertools import product
from unittest.mock import MagicMock

import pytest

from flatfed import plan
from flatfed.engine import callbacks
from flatfed.errors import ConfigError
from flatfed.user_files import CALLBACKS
from harness import assert_same, interrupted_job, job
from repository import ROOT

#: Counts calls in a file, over an interruption, too.
COUNTING = """
from pathlib import Path
from flatfed.engine.callbacks import Callback

class Counting(Callback):
    calls = 0
    def before_round(self, simulation, clients):
        self.calls += len(clients) > 0
    def after_round(self, simulation, line):
        print("AFTER", simulation.round, self.calls, line["test_accuracy"] <= 1, file=open(FILE, "a"))
    def finish(self, simulation):
        print("END", simulation.config.ids.name, file=open(FILE, "a"))
    def state(self):
        return self.calls
    def restore(self, state):
        self.calls = state
"""


@pytest.fixture
def written(tmp_path, monkeypatch):
    def write(text):
        file = tmp_path / "own.py"
        file.write_text(text.replace("FILE", repr(str(tmp_path / "calls.txt"))))
        monkeypatch.setenv(CALLBACKS, str(file))
        return file

    return write


def test_each_round_calls_them_and_an_interruption_loses_no_state(tmp_path, monkeypatch, written):
    """The job is killed in round 4 and resumes from its checkpoint of round 2."""
    plain = job(tmp_path, "fedavg", "plain")
    written(COUNTING)
    interrupted_job(monkeypatch, tmp_path, "fedavg", "parts")
    assert_same(job(tmp_path, "fedavg", "parts"), plain, [0, 2])
    calls = (tmp_path / "calls.txt").read_text().splitlines()
    assert [line.split()[:3] for line in calls[:-1]] == [["AFTER", str(k), str(k)] for k in (1, 2, 3, 3, 4)]
    assert calls[-1].startswith("END ")


def test_a_file_that_cannot_be_used_is_named(written):
    needs = COUNTING.replace("calls = 0", "def __init__(self, x): pass")
    for text, message in (("class (", "own.py: SyntaxError: "), (needs, "own.py: TypeError: .* 'x'")):
        written(text)
        with pytest.raises(ConfigError, match=message):
            callbacks.of_user()


def test_the_configuration_names_files_with_a_callback(tmp_path):
    """A callback in a folder of all one's files is no algorithm."""
    for name, text in {"mine.py": COUNTING, "empty.py": "x = 1"}.items():
        (tmp_path / name).write_text(text)
    requested = {"scale": "preview", "tables": [], "figures": [], "folders": [str(tmp_path)]}
    for name, message in {"absent.py": "there is no such file", "empty.py": "no class of it has the base"}.items():
        with pytest.raises(ConfigError, match=rf"callbacks: \S*{name}: {message}"):
            plan.load(ROOT, {**requested, "callbacks": [str(tmp_path / name)]})
    experiment = plan.load(ROOT, {**requested, "callbacks": [str(tmp_path / "mine.py")]})
    assert experiment.environment[CALLBACKS] == str(tmp_path / "mine.py")
    assert "mine" not in experiment.catalog.algorithms


def test_the_example_for_tensorboard_writes_each_number_of_a_line(tmp_path, monkeypatch, written):
    """Without TensorBoard, which FlatFed does not install."""
    board = MagicMock()
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", board)
    page = (ROOT / "docs/questions.md").read_text()
    written(re.search(r"`mine/tensorboard.py` \(new\):\n\n```python\n(.*?)```", page, re.DOTALL)[1])
    names = (job(tmp_path, "fedavg", "run") / "metrics.csv").read_text().splitlines()[0].split(",")
    scalars = board.SummaryWriter.return_value.__enter__.return_value.add_scalar.call_args_list
    assert {(call.args[0], call.args[2]) for call in scalars} == {*product(names, (1, 2, 3, 4))}
    assert board.SummaryWriter.call_args.args[0].startswith("tensorboard/")
