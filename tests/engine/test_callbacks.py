"""Callbacks of users: files in ``callbacks`` of config.yaml, called around each round of a training."""

import hashlib
import json
import os
import re
import shutil
import sys
from itertools import product
from unittest.mock import MagicMock

import pytest
import torch

from flatfed import plan
from flatfed.engine import callbacks
from flatfed.errors import ConfigError
from flatfed.user_files import CALLBACKS
from harness import assert_same, interrupted_job, job, lines
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
    """The job is killed in round 4 and resumes from its checkpoint of round 3."""
    plain = job(tmp_path, "fedavg", "plain")
    written(COUNTING)
    interrupted_job(monkeypatch, tmp_path, "fedavg", "parts")
    assert_same(job(tmp_path, "fedavg", "parts"), plain, [0, 3])
    calls = (tmp_path / "calls.txt").read_text().splitlines()
    assert [line.split()[:3] for line in calls[:-1]] == [["AFTER", str(k), str(k)] for k in (1, 2, 3, 4)]
    assert calls[-1].startswith("END ")


def test_a_file_that_cannot_be_used_is_named(written):
    needs = COUNTING.replace("calls = 0", "def __init__(self, x): pass")
    syntax, ends = ("class (", "own.py: SyntaxError: "), ("raise SystemExit(0)", "own.py: SystemExit: 0")
    for text, message in (syntax, ends, (needs, "own.py: TypeError: .* 'x'")):
        written(text)
        with pytest.raises(ConfigError, match=message):
            callbacks.of_user()


def test_the_configuration_names_files_with_a_callback(tmp_path, small_config):
    """A callback in a folder of all one's files is no algorithm."""
    for name, text in {"mine.py": COUNTING, "empty.py": "x = 1"}.items():
        (tmp_path / name).write_text(text)
    requested = {"scale": "preview", "tables": [], "figures": [], "folders": [str(tmp_path)]}
    for name, message in {"absent.py": "there is no such file", "empty.py": "no class of it has the base"}.items():
        with pytest.raises(ConfigError, match=rf"callbacks: \S*{name}: {message}"):
            plan.load(small_config, {**requested, "callbacks": [str(tmp_path / name)]})
    experiment = plan.load(small_config, {**requested, "callbacks": [str(tmp_path / "mine.py")]})
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


def test_classes_of_one_name_in_two_files_keep_states_of_their_own(tmp_path, monkeypatch, written):
    """The second file counts from 100 on."""
    first = written(COUNTING)
    second = first.with_name("second.py")
    second.write_text(first.read_text().replace("calls = 0", "calls = 100"))
    monkeypatch.setenv(CALLBACKS, os.pathsep.join(map(str, (first, second))))
    interrupted_job(monkeypatch, tmp_path, "fedavg", "parts")
    job(tmp_path, "fedavg", "parts")
    calls = [line.split()[1:3] for line in (tmp_path / "calls.txt").read_text().splitlines() if "AFTER" in line]
    assert calls == [[str(k), str(k + start)] for k in (1, 2, 3, 4) for start in (0, 100)]
    (tmp_path / "further").mkdir()
    third = shutil.copy(first, tmp_path / "further")
    monkeypatch.setenv(CALLBACKS, os.pathsep.join(map(str, (first, third))))
    with pytest.raises(ConfigError, match=r"own\.py and .*further/own\.py have the same name; rename one of them"):
        callbacks.of_user()


#: Changes all that it may change, and averages and evaluates copies.
READER = """
import torch
from flatfed.engine.callbacks import Callback

class Reader(Callback):
    mean = 0.0
    def before_round(self, simulation, clients):
        clients[:] = 0
    def after_round(self, simulation, line):
        line["test_accuracy"] *= 100
        line["mine"] = 1.0
        self.mean = self.mean + simulation.server["w"].clone().mul_(0.5)
        simulation.evaluate(self.mean[0])
        simulation.algorithm.evaluated(simulation.server)
        simulation.state.gather(simulation.sample())
"""


def test_copies_are_theirs_and_run_json_has_the_digest_of_their_file(tmp_path, written):
    """A second one in the file, called later, and the engine get the values that the first one got."""
    plain = job(tmp_path, "scaffold", "plain")
    later = "\nclass Later(Callback):\n    def after_round(self, simulation, line):\n        "
    file = written(READER + later + 'print(line["test_accuracy"], len(line), file=open(FILE, "a"))\n')
    run = job(tmp_path, "scaffold", "run")
    assert_same(run, plain)
    columns = lines(plain)
    seen = [line.split() for line in (tmp_path / "calls.txt").read_text().splitlines()]
    assert seen == [[line["test_accuracy"], str(len(line) + 1)] for line in columns], "with the seconds"
    digest = {"own.py": hashlib.sha256(file.read_bytes()).hexdigest()}
    record = json.loads((run / "run.json").read_text())
    assert record["callbacks"] == record["sessions"][0]["callbacks"] == digest
    assert "callbacks" not in (plain / "run.json").read_text()


#: A line of after_round -> what it changes of the simulation. SCAFFOLD has client and server vectors.
CHANGES = {
    "self.__dict__.setdefault('mean', s.server['w']).mul_(0.5).add_(s.server['w'] / 2)": 'server["w"]',
    "s.server['w'].numpy()[0, 3] += 1": 'server["w"]',
    "s.server['w'] = s.server['w'] / 2": 'server["w"]',
    "s.state.store['c'][0].numpy()[2] = 5": 'state.store["c"]',
    "s.weights.tensors(s.weights.initial)[s.layout.names[0]].mul_(2)": "weights.initial",
    "s.data.images.numpy()[0] = 0": "data.images",
    "s.data.labels[0] = 1 - s.data.labels[0]": "data.labels",
    "s.members[0].fill(0)": "members",
    "s.model.eval()": "model.training",
    "s.algorithm.server_learning_rate = 0.5": "algorithm.server_learning_rate",
}


@pytest.mark.parametrize("line", CHANGES)
def test_a_change_of_vectors_data_or_settings_is_refused_by_file_and_method(tmp_path, written, line):
    method = f"class Mean(Callback):\n    def after_round(self, s, _):\n        {line}"
    file = written(f"from flatfed.engine.callbacks import Callback\n{method}")
    with pytest.raises(ConfigError) as refusal:
        job(tmp_path, "scaffold", "run")
    changed = re.escape(f"callbacks: {file}: Mean.after_round changed simulation.{CHANGES[line]}; ")
    assert re.match(changed + r"a callback may change copies only, such as .*\.clone\(\)$", str(refusal.value))
    assert not (tmp_path / "run/run.json").exists()


def test_some_entries_of_a_large_tensor_are_compared_bit_by_bit(monkeypatch):
    monkeypatch.setattr(callbacks, "COMPARED", 4096)
    values = torch.full((3, 4096), torch.nan)
    first = callbacks.entries(values)
    assert first == callbacks.entries(values), "the same bits, which are no equal numbers"
    assert len(first) == 4 * 1024
    values.numpy()[1] = 0
    assert first != callbacks.entries(values)
