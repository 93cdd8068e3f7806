"""The training job as a whole: its files, and the same bytes after an interruption."""

import hashlib
import json
import os
import re
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from flatfed import algorithms, models
from flatfed.engine.job import checkpoint
from flatfed.errors import DataError
from flatfed.runs import versions
from flatfed.runs.record import read_finished
from harness import assert_same, description, interrupted_job, job, lines, sessions, write_problem
from repository import SRC
from samples import sampled

WILD = {"learning_rate": 1e30, "clip_norm": None}


def test_writes_metrics_model_and_provenance(tmp_path, capsys):
    out = job(tmp_path, "fedsmoo", "run")
    assert re.search(r"fedsmoo/seed3: done in \d s: training \d+ %, evaluation \d+ %\n$", capsys.readouterr().err)
    rows, record, weights = lines(out), read_finished(out), load_file(out / "model.safetensors")
    columns = "round learning_rate train_loss test_loss test_accuracy clients consistency download_bytes upload_bytes"
    assert list(rows[0]) == columns.split() and [row["round"] for row in rows] == ["1", "2", "3", "4"]
    assert (record.diverged_at, record.rounds_done, sessions(out)) == (None, 4, [0])
    assert record.versions == versions.of_run(record.config)
    data = json.loads((tmp_path / "data" / "dataset.json").read_text())
    assert record.images == {"train": data["train"], "test": data["test"]}
    active = sum(int(row["clients"]) for row in rows)
    assert int(rows[-1]["upload_bytes"]) == active * 2 * 4 * record.parameters
    assert sum(tensor.numel() for tensor in weights.values()) == record.parameters
    assert record.also["mean"]["test_loss"] != float(rows[-1]["test_loss"])
    assert record.gradient_evaluations == 2 * record.local_steps > 0
    assert not (out / checkpoint.NAME).exists()


#: Algorithm, executor, other changes. Mixing moves the models of nodes that did not train: a checkpoint has them all.
INTERRUPTED = [
    *((name, executor, {}) for name in algorithms.names() for executor in ("sequential", "stacked")),
    ("dfedavg", "stacked", {"sampling": {"scheme": "fixed", "fraction": 0.34}}),
    ("fedsmoo", "stacked", {"validation": 0.2, "evaluation": {"every": 2, "sets": ["validation"], "batch_size": 7}}),
]
SAMPLE = [("dispfl", "sequential", {}), *INTERRUPTED[-2:]]


@pytest.mark.parametrize("case", sampled(INTERRUPTED, SAMPLE), ids=lambda case: " ".join([*case[:2], *case[2]]))
def test_same_seed_same_bytes_and_an_interruption_changes_nothing(tmp_path, monkeypatch, case):
    name, executor, changes = case
    changes = {"executor": {"cpu": executor, "cuda": executor}, "augmentation": "crop_flip_half", **changes}
    whole = job(tmp_path, name, "whole", **changes)
    interrupted_job(monkeypatch, tmp_path, name, "parts", **changes)
    assert (tmp_path / "parts" / checkpoint.NAME).exists()
    assert_same(job(tmp_path, name, "parts", **changes), whole, [0, 3])


def test_on_a_cpu_clients_that_train_alone_are_trained_by_sequential(tmp_path, monkeypatch):
    """A resumed run keeps its executor, whose float32 bits are others."""
    stacked = {"executor": {"cpu": "stacked", "cuda": "stacked"}}
    interrupted_job(monkeypatch, tmp_path, "fedavg", "resumed", **stacked)
    outs = [job(tmp_path, "fedavg", name, rows=1, **stacked) for name in ("resumed", "alone")]
    outs += [job(tmp_path, "fedavg", "two", rows=2, **stacked)]
    outs += [job(tmp_path / "central", "centralised_sgd", "run", **stacked)]
    executors = [read_finished(out).executor for out in outs]
    assert executors == ["stacked", "sequential", "stacked", "sequential"]


def test_a_diverged_run_ends_at_its_round_and_says_so(tmp_path):
    """JSON has no NaN; a tuning run that diverges at once has no line."""
    evaluation, probe = {"every": 4, "sets": ["test"], "batch_size": 7}, {"every": 2, "images": 20, "rho": 0.1, "m": 5}
    record = read_finished(job(tmp_path, "fedsam", "probed", **WILD, probe=probe, evaluation=evaluation))
    assert record.diverged_at is not None and any(measure["sharpness"] is None for measure in record.probes)
    tuning = {"validation": 0.2, "evaluation": {"every": 1, "sets": ["validation"], "batch_size": 7}}
    out = job(tmp_path, "fedsmoo", "tuned", **WILD, **tuning)
    assert read_finished(out).diverged_at == 1 and lines(out) == []
    assert "validation_loss,validation_accuracy" in (out / "metrics.csv").read_text()


def test_trains_on_a_host_with_torch_numpy_safetensors_and_pydantic_only(tmp_path):
    """A bare GPU host: every other package of the project is made impossible to import."""
    write_problem(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps(description("fedsmoo", precision="float32", rounds=1)))
    code = """
import sys
absent = "snakemake yaml pandas seaborn matplotlib torchvision pyhessian jinja2 PIL"
sys.modules.update(dict.fromkeys(absent.split()))
from flatfed.cli import main
sys.exit(main("train --run run.json --dataset data --partition partition.npz --out o".split()))
"""
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "o" / "run.json").exists()


def test_a_run_tells_the_weights_it_began_with_and_does_not_go_on_from_others(tmp_path, monkeypatch):
    file = tmp_path / "weights"

    def begin_with(value: float) -> str:
        """Write weights that are all ``value``; return the file's SHA-256."""
        model = models.build("cnn_tiny", (1, 8, 8), 3, {})
        torch.save({name: torch.full_like(p, value) for name, p in model.named_parameters()}, file)
        return hashlib.sha256(file.read_bytes()).hexdigest()

    model = description("fedavg")["model"] | {"weights": "constant"}
    changes = {"model": model, "weights": file}
    first = begin_with(0.01)
    assert read_finished(job(tmp_path, "fedavg", "first", **changes)).weights_digest == first
    interrupted_job(monkeypatch, tmp_path, "fedavg", "other", **changes)
    second = begin_with(0.02)
    other = job(tmp_path, "fedavg", "other", **changes)
    assert read_finished(other).weights_digest == second != first and sessions(other) == [0]
    missing = "model.weights of the run is 'constant', but there is no file"
    for wrong, message in (
        ({**changes, "weights": tmp_path / "nowhere"}, f"{missing} .*nowhere; it should be a state dict"),
        ({**changes, "weights": None}, f"{missing} resources/weights/constant.pth"),
        ({"weights": file}, f"model.weights of the run is absent, but there is the file {file}"),
    ):
        with pytest.raises(DataError, match=message):
            job(tmp_path, "fedavg", "none", **wrong)
