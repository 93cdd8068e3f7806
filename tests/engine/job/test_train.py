"""The training job as a whole: what it writes, and that an interruption leaves no trace in it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file, save_file

from flatfed import algorithms, models
from flatfed.engine import versions
from flatfed.engine.job import checkpoint
from flatfed.engine.job.machine import pick_device
from flatfed.engine.job.train import train
from flatfed.errors import DataError, FlatFedError
from flatfed.runs.run_config import RunConfig
from harness import description, evaluated, interrupted_job, job, lines, write_problem
from repository import SRC
from samples import FEW, sampled


def test_writes_metrics_model_and_provenance(tmp_path, capsys):
    out = job(tmp_path, "fedsmoo", "run")
    assert re.search(r"fedsmoo/seed3: done in \d s: training \d+ %, evaluation \d+ %\n$", capsys.readouterr().err)
    rows = lines(out)
    assert [row["round"] for row in rows] == ["1", "2", "3", "4"]
    assert list(rows[0]) == [
        *("round", "learning_rate", "train_loss", "test_loss", "test_accuracy", "clients", "consistency"),
        *("download_bytes", "upload_bytes"),
    ]
    record = json.loads((out / "run.json").read_text())
    assert record["diverged_at"] is None and record["rounds_done"] == 4
    assert record["versions"] == versions.of_run(RunConfig(**record["description"]))
    data = json.loads((tmp_path / "data" / "dataset.json").read_text())
    assert record["images"] == {"train": data["train"], "test": data["test"]}
    active = sum(int(row["clients"]) for row in rows)
    assert int(rows[-1]["upload_bytes"]) == active * 2 * 4 * record["parameters"]
    weights = load_file(out / "model.safetensors")
    assert sum(w.numel() for w in weights.values()) == record["parameters"]
    again = evaluated(out, tmp_path / "data", tmp_path / "partition.npz")
    assert again["test_accuracy"] == float(rows[-1]["test_accuracy"])
    assert again["test_loss"] == pytest.approx(float(rows[-1]["test_loss"]), rel=1e-5)
    assert not (out / checkpoint.NAME).exists()
    assert record["also"]["mean"]["test_loss"] != again["test_loss"]
    assert record["gradient_evaluations"] == 2 * record["local_steps"] > 0
    assert [session["from_round"] for session in record["sessions"]] == [0]


@pytest.mark.parametrize("executor", ["sequential", "stacked"])
@pytest.mark.parametrize("name", sampled(algorithms.names(), FEW))
def test_same_seed_same_bytes_and_an_interruption_changes_nothing(tmp_path, monkeypatch, name, executor):
    changes = dict(executor={"cpu": executor, "cuda": executor}, augmentation="crop_flip_half")
    whole = job(tmp_path, name, "whole", **changes)
    interrupted_job(monkeypatch, tmp_path, name, "parts", **changes)
    assert (tmp_path / "parts" / checkpoint.NAME).exists()
    parts = job(tmp_path, name, "parts", **changes)
    assert lines(parts) == lines(whole)
    assert (parts / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    record = json.loads((parts / "run.json").read_text())
    assert [session["from_round"] for session in record["sessions"]] == [0, 2]


def test_a_killed_process_goes_on_to_the_same_bytes(tmp_path):
    spec = dict(rounds=30, checkpoint_every=3)
    whole = job(tmp_path, "fedsmoo", "whole", **spec)
    (tmp_path / "run.json").write_text(json.dumps(description("fedsmoo", precision="float32", **spec)))
    code = (
        "import json, sys, time\nfrom flatfed.engine import simulation as s\n"
        "from flatfed.engine.job import train as t\nfrom flatfed.runs.run_config import RunConfig\n"
        "advance = s.Simulation.advance\n"
        "s.Simulation.advance = lambda self: (time.sleep(0.05), advance(self))[1]\n"
        "t.train(RunConfig(**json.load(open('run.json'))), 'data', 'partition.npz', 'parts', device='cpu')"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(SRC)})
    mark = tmp_path / "parts" / checkpoint.NAME
    deadline = time.monotonic() + 60
    while not mark.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert mark.exists() and not (tmp_path / "parts" / "metrics.csv").exists()
    parts = job(tmp_path, "fedsmoo", "parts", **spec)
    assert lines(parts) == lines(whole)
    assert (parts / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


@pytest.mark.parametrize("damage", ["other run", "cut short", "garbage"])
def test_a_checkpoint_of_another_run_or_a_broken_one_is_not_trusted(tmp_path, monkeypatch, capsys, damage):
    whole = job(tmp_path, "fedavg", "whole")
    interrupted_job(
        monkeypatch, tmp_path, "fedavg", "parts", **({"learning_rate": 0.05} if damage == "other run" else {})
    )
    mark = tmp_path / "parts" / checkpoint.NAME
    if damage == "cut short":
        mark.write_bytes(mark.read_bytes()[:-100])
    if damage == "garbage":
        mark.write_bytes(b"not a checkpoint")
    capsys.readouterr()
    parts = job(tmp_path, "fedavg", "parts")
    assert "from the start" in capsys.readouterr().err
    assert sorted(path.name for path in parts.iterdir()) == ["metrics.csv", "model.safetensors", "run.json"]
    assert (parts / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_a_diverged_run_ends_at_its_round_and_says_so(tmp_path):
    out = job(tmp_path, "fedavg", "run", learning_rate=1e30, clip_norm=None)
    record = json.loads((out / "run.json").read_text())
    assert record["diverged_at"] is not None
    assert len(lines(out)) == record["diverged_at"] - 1


def test_a_probed_run_that_diverges_ends_as_well_and_measures_that_are_no_numbers_are_null(tmp_path):
    probe = {"every": 2, "images": 20, "rho": 0.1, "m": 5}
    seldom = {"every": 4, "sets": ["test"], "batch_size": 7}
    out = job(tmp_path, "fedsam", "run", learning_rate=1e30, clip_norm=None, probe=probe, evaluation=seldom)
    record = json.loads((out / "run.json").read_text())
    assert record["diverged_at"] is not None
    assert any(look["sharpness"] is None for look in record["probes"])


def test_data_of_another_shape_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"shape \[1, 8, 8\].*has \[3, 32, 32\]"):
        job(
            tmp_path,
            "fedavg",
            "run",
            dataset={"name": "x", "classes": 3, "shape": [3, 32, 32], "mean": [0] * 3, "std": [1] * 3},
        )
    with pytest.raises(DataError, match="not the partition of the run: clients is 6, the run has 9; scheme is"):
        job(tmp_path, "fedavg", "run", partition={"clients": 9, "scheme": "shards"})


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there")
def test_cuda_asked_for_and_absent_fails_at_once(tmp_path):
    write_problem(tmp_path)
    with pytest.raises(FlatFedError, match="torch sees no GPU"):
        train(
            RunConfig(**description("fedavg")),
            tmp_path / "data",
            tmp_path / "partition.npz",
            tmp_path / "out",
            device="cuda",
        )


def no_kernel(monkeypatch, message):
    """Let torch see a V100, on which every kernel ends with an error of this ``message``."""

    def refuse(*_args, **_kwargs):
        raise RuntimeError(message)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "Tesla V100-SXM2-16GB")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (7, 0))
    monkeypatch.setattr(torch, "ones", refuse)


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_a_gpu_without_kernels_in_this_build_of_torch_is_refused_at_once(tmp_path, monkeypatch, device):
    write_problem(tmp_path)
    no_kernel(monkeypatch, "CUDA error: no kernel image is available for execution on the device\nCUDA kernel errors")
    with pytest.raises(FlatFedError) as refusal:
        train(
            RunConfig(**description("fedavg")),
            tmp_path / "data",
            tmp_path / "partition.npz",
            tmp_path / "out",
            device=device,
        )
    message = str(refusal.value)
    assert "Tesla V100-SXM2-16GB (compute capability 7.0)" in message and f"torch {torch.__version__}" in message
    assert "https://download.pytorch.org/whl/cu126" in message and "7.5 or later" in message


def test_other_errors_of_the_first_kernel_are_left_to_the_job(monkeypatch):
    """A GPU without free memory: the job explains it, and may use fewer clients at a time."""
    no_kernel(monkeypatch, "CUDA out of memory. Tried to allocate 20.00 MiB.")
    assert pick_device("cuda") == torch.device("cuda") and pick_device("cpu") == torch.device("cpu")


def test_trains_on_a_host_with_torch_numpy_safetensors_and_pydantic_only(tmp_path):
    """A bare GPU host: every other package of the project is made impossible to import."""
    write_problem(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps(description("fedsmoo", precision="float32", rounds=1)))
    code = (
        "import sys\n"
        "absent = 'snakemake yaml pandas seaborn matplotlib sklearn torchvision pyhessian jinja2 PIL'\n"
        "sys.modules.update(dict.fromkeys(absent.split()))\n"
        "from flatfed.cli import main\n"
        "sys.exit(main('train --run run.json --dataset data --partition partition.npz --out o'.split()))"
    )
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "o" / "run.json").exists()


def test_a_run_tells_the_weights_it_began_with_and_does_not_go_on_from_others(tmp_path, monkeypatch):
    def begin_with(value: float) -> str:
        """Write weights that are ``value`` throughout; return the file's SHA-256."""
        model = models.build("cnn_tiny", (1, 8, 8), 3, {})
        save_file({name: torch.full_like(p, value) for name, p in model.named_parameters()}, tmp_path / "weights")
        return hashlib.sha256((tmp_path / "weights").read_bytes()).hexdigest()

    spec = description("fedavg")["model"] | {"weights": "constant"}
    changes = {"model": spec, "checkpoint_every": 1, "rounds": 5, "weights": tmp_path / "weights"}
    first = begin_with(0.01)
    record = json.loads((job(tmp_path, "fedavg", "first", **changes) / "run.json").read_text())
    assert record["weights_digest"] == first
    interrupted_job(monkeypatch, tmp_path, "fedavg", "other", **changes)
    second = begin_with(0.02)
    record = json.loads((job(tmp_path, "fedavg", "other", **changes) / "run.json").read_text())
    assert record["weights_digest"] == second != first and len(record["sessions"]) == 1
    with pytest.raises(DataError, match="nowhere: cannot be read as weights"):
        job(tmp_path, "fedavg", "none", **changes | {"weights": tmp_path / "nowhere"})
    with pytest.raises(DataError, match=r"model.weights of the run is 'constant', but their file is missing"):
        job(tmp_path, "fedavg", "none", **changes | {"weights": None})
    with pytest.raises(DataError, match=r"model.weights of the run is None, but there is the file .*weights"):
        job(tmp_path, "fedavg", "none", weights=tmp_path / "weights")
