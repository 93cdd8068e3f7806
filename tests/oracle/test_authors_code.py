"""benchmarks/authors_code.py: a code of the same interface is handed a run's images, weights, draws and values."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flatfed import experiment
from flatfed.data import partition, sources
from flatfed.engine.job.train import train
from flatfed.errors import DataError
from flatfed.experiment import run_specs

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import authors_code  # noqa: E402

MODELS = """
from torch import nn

from flatfed import models


class client_model(nn.Module):
    def __init__(self, name, classes):
        super().__init__()
        self.model = models.build("cnn_tiny", (1, 8, 8), classes, {})

    def forward(self, images):
        return self.model(images)
"""

#: FedAvg of one step a client, on all of its images.
SERVER = """
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_, parameters_to_vector, vector_to_parameters


class FedAvg:
    def __init__(self, device, model_func, init_model, init_par_list, datasets, method, args):
        assert method == "FedAvg" and args.local_epochs == 1 and args.batchsize == 99
        assert args.weight_decay == 0.5 and args.lr_decay == 0.9
        self.model_func, self.server_model, self.w, self.datasets, self.args = (
            model_func, init_model, init_par_list.clone(), datasets, args)
        self.test_perf = np.zeros((args.comm_rounds, 2))
        self.kept = torch.zeros((args.total_client, len(init_par_list)))
        self.repeated = init_par_list.repeat(args.total_client, 1)
        print(sorted(file.name for file in Path(args.out_file).parent.iterdir()))

    def _validate_(self, data):
        vector_to_parameters(self.w, self.server_model.parameters())
        with torch.no_grad():
            found = self.server_model(torch.tensor(data[0]))
        labels = torch.tensor(data[1]).flatten()
        return float(cross_entropy(found, labels)), float((found.argmax(1) == labels).float().mean())

    def train(self):
        rate = self.args.local_learning_rate
        for t in range(self.args.comm_rounds):
            chosen = self._activate_clients_(t)
            for client in chosen:
                model = self.model_func()
                vector_to_parameters(self.w.clone(), model.parameters())
                images, labels = self.datasets.client_x[client], self.datasets.client_y[client]
                images, labels = torch.tensor(images), torch.tensor(labels)
                cross_entropy(model(images), labels.flatten()).backward()
                clip_grad_norm_(model.parameters(), 10)
                torch.optim.SGD(model.parameters(), rate, weight_decay=self.args.weight_decay).step()
                self.kept[client] = parameters_to_vector(model.parameters()).detach()
            self.w = self.kept[chosen].mean(0)
            self._test_(t, chosen)
            rate *= self.args.lr_decay
"""


@pytest.mark.parametrize("large", [10**8, 100], ids=["in memory", "in files"])
def test_its_rounds_are_ours_where_a_step_takes_all_images(tmp_path, large):
    known = experiment.load(ROOT)
    run = run_specs.run(known, "preview", "fedsmoo-cifar10", "path3-100", "fedavg", 1)
    description = {**run.description, "local_epochs": 1, "batch_size": 99, "rounds": 4}
    description = {**description, "weight_decay": 0.5, "learning_rate_decay": 0.9}
    data, dealt, out = tmp_path / "data", tmp_path / "dealt.npz", tmp_path / "theirs.csv"
    sources.fetch(run_specs.dataset_spec(known.catalog, run.dataset), data)
    partition.make(run_specs.partition_spec(known, "preview", "fedsmoo-cifar10", "path3-100", 1), data, dealt)
    train(description, data, dealt, tmp_path / "ours", device="cpu", threads=1)
    code = tmp_path / "code"
    code.mkdir()
    (code / "models.py").write_text(MODELS)
    (code / "server.py").write_text(SERVER)
    (tmp_path / "run.json").write_text(json.dumps(description))
    words = f"{code} --run run.json --dataset data --partition dealt.npz --rounds 4 --out theirs.csv".split()
    program = f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r}); import authors_code"
    program += f"; authors_code.FIXED = {{}}; authors_code.LARGE = {large}; authors_code.main()"
    done = subprocess.run([sys.executable, "-c", program, *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ("['0', '1']" if large == 100 else "[]"), "the two tables"
    with open(out, newline="") as theirs, open(tmp_path / "ours/metrics.csv", newline="") as ours:
        theirs, ours = list(csv.DictReader(theirs)), list(csv.DictReader(ours))
    assert [line["round"] for line in theirs] == ["1", "2", "3", "4"]
    accuracies = [float(line["test_accuracy"]) for line in theirs]
    assert accuracies == pytest.approx([float(line["test_accuracy"]) for line in ours], abs=0.0021)
    assert len(set(accuracies)) == 4, "another model each round, so that agreement says something"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "code", "data", "dealt.npz", "ours", "run.json", "theirs.csv",
    ]  # fmt: skip


def paper_run(algorithm: str, **changes) -> dict:
    return {
        **run_specs.run(experiment.load(ROOT), "paper", "fedsmoo-cifar10", "path3-100", algorithm, 1).description,
        **changes,
    }


def test_its_options_are_a_runs_values():
    about = paper_run("fedsmoo~rho0.05", weight_decay=0.01, learning_rate=0.2, local_epochs=2, batch_size=20)
    about["update"]["params"]["penalty"] = 0.3
    options = vars(authors_code.values(about, 7, 15, Path("out")))
    ours = {"method": "FedSMOO", "model": "ResNet18", "dataset": "CIFAR10", "total_client": 7, "comm_rounds": 15}
    ours |= {"local_epochs": 2, "batchsize": 20, "weight_decay": 0.01, "local_learning_rate": 0.2, "lr_decay": 0.9995}
    ours |= {"lamb": 0.3, "rho": 0.05, "alpha": 0.1, "global_learning_rate": 1.0, "use_RI": False}
    assert {name: options[name] for name in ours} == ours
    assert authors_code.values(paper_run("fedcm~beta0.5"), 7, 15, Path("out")).alpha == 0.5


@pytest.mark.parametrize(
    ("algorithm", "changes", "said"),
    [
        ("fedsmoo~heads", {}, "unpacking: the run has 'FL-Simulator@653ebb5', and that code can only"),
        ("fedsmoo~paper-s", {}, "s: the run has 'paper'"),
        ("fedavg", {"clip_norm": 1.0}, "clip_norm: the run has 1.0"),
        ("fedavg", {"augmentation": "none"}, "augmentation: the run has 'none'"),
        ("fedavg", {"model": {"name": "cnn", "options": {}}}, "model: the run has"),
    ],
)
def test_what_it_cannot_be_told_is_refused(algorithm, changes, said):
    with pytest.raises(DataError, match=re.escape(said)):
        authors_code.values(paper_run(algorithm, **changes), 100, 15, Path("out"))
