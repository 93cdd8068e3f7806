"""A small federated problem in float64, for the engine and as plain tensors.

The problem has what breaks careless code: clients of unequal size, ragged last batches, partial participation, a clip
that acts on half of the gradients, weight decay, a falling learning rate, several local epochs.
"""

from __future__ import annotations

import copy
import csv
import json
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import made
from flatfed import algorithms, cli, models
from flatfed.analysis.hessian.measure import KEYS, signs
from flatfed.data import dataset as datasets
from flatfed.data import manifest
from flatfed.data import partition as partitions
from flatfed.engine import batches
from flatfed.engine.job import assembly, checkpoint, interruption
from flatfed.engine.job.outputs import Identity
from flatfed.engine.job.train import train
from flatfed.engine.simulation import Simulation
from flatfed.files import digest_arrays
from flatfed.runs import record as records
from flatfed.runs.run_config import RunConfig

SIZES = [7, 12, 5, 9, 10, 6]
DROPOUT = {"name": "cnn", "options": {"pooling": "last", "dropout1": 0.25, "dropout2": 0.5}}  # a model that has some

IDENTITY = Identity("of its description", "of its partition", "of its data", {"engine": 1})  # of some run

HOST = "[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: not enough memory: you tried to allocate 81920 bytes."
ERRORS = {
    "on a GPU": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has ..."),
    "on the host": RuntimeError(HOST),
    "in numpy": MemoryError("Unable to allocate 8.00 GiB for an array"),
    "in cuBLAS": RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
}


def write_problem(folder: Path, sizes: list[int] = SIZES, classes: int = 3, side: int = 8) -> tuple[Path, Path]:
    """Write a dataset folder and a partition file of ``len(sizes)`` clients; return their paths."""
    rng = np.random.default_rng(5)
    count, test = sum(sizes), 20
    labels = rng.integers(0, classes, count + test)
    images = rng.integers(0, 200, (count + test, 1, side, side)) + 18 * labels[:, None, None, None]
    images, labels = images.astype(np.uint8), labels.astype(np.int64)
    data = folder / "data"
    data.mkdir(parents=True)
    np.save(data / "images.npy", images)
    np.save(data / "labels.npy", labels)
    digest = digest_arrays(images=images, labels=labels)
    about = {"name": "problem", "classes": classes, "shape": [1, side, side], "train": count, "test": test}
    source = {"domains": None, "source": {"source": "test"}, "digest": digest, "bytes": images.nbytes}
    manifest.write(data / manifest.NAME, manifest.Manifest(**about, **source))
    indices = rng.permutation(count).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    counts = np.stack([np.bincount(labels[part], minlength=classes) for part in np.split(indices, offsets[1:-1])])
    dealt = {"indices": indices, "offsets": offsets, "test": np.arange(count, count + test), "class_counts": counts}
    scheme = "iid" if len(sizes) > 1 else "central"
    spec = {"scheme": scheme, "clients": len(sizes), "seed": 3, "dataset_digest": digest}
    partitions.write(folder / "partition.npz", dealt, spec)
    return data, folder / "partition.npz"


def description(name: str, params: dict | None = None, **changes) -> dict:
    """Return a run description of the problem in float64; ``changes`` replace its top-level keys."""
    ids = {"scale": "test", "protocol": "problem", "split": "test", "algorithm": name, "seed": 3}
    settings = {**copy.deepcopy(made.SETTINGS), **ids, "update": {"name": name, "params": params or {}}, **changes}
    return {**settings, "partition": {**made.SETTINGS["partition"], **settings["partition"]}}


def needs(name: str) -> dict:
    """Return the changes of the description without which algorithm ``name`` cannot run on a problem."""
    kind = algorithms.load(name)
    if kind.central:
        return {"partition": {"scheme": "central", "clients": 1}, "sampling": {"scheme": "all"}, "local_steps": 7}
    if kind.decentralised:
        return {"topology": {"graph": "ring"}, "sampling": {"scheme": "all"}}
    return {}


def sizes(name: str) -> list[int]:
    """Return the sizes of the clients that algorithm ``name`` can train on: all data at one place if it is central."""
    return [sum(SIZES)] if algorithms.load(name).central else SIZES


def simulation(folder: Path, spec: dict, executor: str = "stacked", **options) -> Simulation:
    """Return a simulation of ``spec`` on the problem in ``folder`` (made there when missing)."""
    if not (folder / "partition.npz").exists():
        write_problem(folder, sizes(spec["update"]["name"]))
    data, dealt = datasets.load(folder / "data"), partitions.load(folder / "partition.npz")
    places = data, dealt, torch.device("cpu"), executor
    return assembly.simulation(RunConfig(**spec), *places, pause=lambda: interruption.check(), **options)


def advanced(run: Simulation, rounds: int) -> list[dict[str, float] | None]:
    """Let ``run`` go on for so many ``rounds``; return their numbers without seconds, None if not evaluated."""
    rows = [run.advance() for _ in range(rounds)]
    return [row and {key: value for key, value in row.items() if key != "seconds"} for row in rows]


def with_gradients(run: Simulation, gradients: Callable) -> None:
    """Let the local steps of ``run`` take losses and gradients from ``gradients(w, batch)``."""
    kind, executor = type(run.executor), copy.copy(run.executor)
    executor.__class__ = type(kind.__name__, (kind,), {"__call__": lambda self, *arguments: gradients(*arguments)})
    run.local_update.plain.executor = executor


def weights(folder: Path, spec: dict, executor: str = "stacked", rounds: int | None = None) -> torch.Tensor:
    """Return the server's model (parameters,) after the run's rounds, as :func:`full_rows`."""
    run = simulation(folder, spec, executor)
    advanced(run, spec["rounds"] if rounds is None else rounds)
    return full_rows(run, run.server["w"])[0]


def full_rows(run: Simulation, rows: torch.Tensor) -> torch.Tensor:
    """Return ``rows`` (n, size) of ``run`` with all taps, in torch's order; shorter rows stay as they are."""
    if rows.shape[1] != run.layout.size:
        return rows.clone()
    return torch.stack([torch.cat([part.flatten() for part in run.weights.tensors(row).values()]) for row in rows])


def job(tmp_path: Path, name: str, out: str, weights: Path | None = None, **changes) -> Path:
    """Train algorithm ``name`` on the problem in ``tmp_path`` in float32; return the run's folder."""
    if not (tmp_path / "data").exists():
        write_problem(tmp_path, sizes(name))
    spec = description(name, **{"precision": "float32", **needs(name), **changes})
    files = (tmp_path / name for name in ("data", "partition.npz", out))
    train(RunConfig(**spec), *files, device="cpu", weights=weights)
    return tmp_path / out


def at_round(monkeypatch, number, happens):
    """Have ``happens()`` happen before round ``number``."""
    advance = Simulation.advance

    def disturbed(self):
        if self.round == number:
            happens()
        return advance(self)

    monkeypatch.setattr(Simulation, "advance", disturbed)


def write_checkpoints(monkeypatch) -> None:
    """Write a checkpoint after every round."""
    monkeypatch.setattr(checkpoint, "PERIOD", 0.0)
    monkeypatch.setattr(checkpoint, "SPARING", 0)


def interrupted_job(monkeypatch, *arguments, **changes) -> None:
    """Run a job that is interrupted in its fourth round, after the checkpoint of the third."""
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        write_checkpoints(patch)
        at_round(patch, 3, Mock(side_effect=KeyboardInterrupt))
        job(*arguments, **changes)


def lines(folder: Path, name: str = records.METRICS) -> list[dict[str, str]]:
    """Return the lines of a run's metrics without the seconds."""
    with open(folder / name, newline="") as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


def sessions(run: Path) -> list[int]:
    """Return the rounds after which the sessions of a finished run began."""
    return [session["from_round"] for session in records.read_finished(run).sessions]


def assert_same(parts: Path, whole: Path, began: list[int] | None = None) -> None:
    """Assert that two finished runs have the same files but for seconds, and no others; ``began``: :func:`sessions`."""
    assert lines(parts) == lines(whole)
    assert (parts / records.MODEL).read_bytes() == (whole / records.MODEL).read_bytes()
    assert sorted(path.name for path in parts.iterdir()) == [".finished", *sorted(records.FILES)]
    one, other = ([{**probe, "seconds": 0} for probe in records.read_finished(run).probes] for run in (parts, whole))
    assert one == other
    assert began is None or sessions(parts) == began


class Reference:
    """The problem of a description as plain tensors: ``w`` the initial weights, ``m`` clients with their ``members``.

    Shares with flatfed: the initial weights, the batches, and the model's forward pass.
    """

    def __init__(self, folder: Path, spec: dict):
        if not (folder / "partition.npz").exists():
            write_problem(folder)
        run = simulation(folder, spec)
        self.spec = spec
        self.w = full_rows(run, run.weights.initial[None])[0]
        self.members = run.members
        self.m = len(self.members)
        data = np.load(folder / "data" / "images.npy"), np.load(folder / "data" / "labels.npy")
        mean, std = spec["dataset"]["mean"][0], spec["dataset"]["std"][0]
        self.x = (torch.from_numpy(data[0]).double() / 255 - mean) / std
        self.y = torch.from_numpy(data[1])
        model = spec["model"]
        self.model = models.build(model["name"], tuple(spec["dataset"]["shape"]), 3, model["options"]).double()

    def gradient(self, w: torch.Tensor, index: np.ndarray) -> torch.Tensor:
        """Gradient of the mean cross-entropy on images ``index``."""
        vector_to_parameters(w, self.model.parameters())
        for p in self.model.parameters():
            p.requires_grad_()
            p.grad = None
        cross_entropy(self.model(self.x[index]), self.y[index]).backward()
        return parameters_to_vector([p.grad for p in self.model.parameters()]).detach().clone()

    def batches(self, client: int, round_: int) -> list[np.ndarray]:
        """The client's batches of the round, in order."""
        schedule = batches.Schedule(*map(self.spec.get, ("batch_size", "local_epochs", "local_steps")))
        draws = {"seed": self.spec["seed"], "round_": round_, "augmentation": "none"}
        dealt = batches.plan(np.array([client]), self.members, schedule, **draws)
        return [dealt.index[0, k][dealt.weight[0, k] > 0] for k in range(dealt.length)]


def evaluated(run: Path, data: Path, partition: Path) -> dict[str, float]:
    """Return the scores of the model that the finished run in folder ``run`` ended with, computed on the CPU."""
    config = records.read_finished(run).config
    found = assembly.simulation(config, *assembly.load_data(config, data, partition), torch.device("cpu"), "sequential")
    taps, tensors = getattr(found.weights, "taps", None), load_file(run / records.MODEL)
    names = found.layout.names if taps is None else taps.full.names
    row = torch.cat([tensors[name].reshape(-1) for name in names]).to(found.weights.initial)
    return found.evaluate(row if taps is None else taps.reduce(row))


def split_images(shape: tuple[int, ...], classes: int, count: int = 11) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return ``count`` random images with labels, in batches of at most 4."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(count, *shape, dtype=torch.double, generator=generator)
    y = torch.randint(0, classes, (count,), generator=generator)
    return list(zip(x.split(4), y.split(4), strict=True))


def seeded(model: nn.Module) -> nn.Module:
    """Return ``model`` in float64 with weights drawn from a fixed seed."""
    model = model.double()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, dtype=torch.double, generator=generator) / 2)
    return model


def draw_of_signs(products, purpose: str, seed: int = 0):
    """Return the random signs that an estimate of ``purpose`` draws for the Hessian of ``products``."""
    return signs(products, seed, KEYS[purpose])


def train_command(tmp_path: Path, out: str, **changes) -> int:
    """Train ``description("fedsmoo", **changes)`` by the command; return its exit status."""
    if not (tmp_path / "data").exists():
        write_problem(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps(description("fedsmoo", precision="float32", **changes)))
    files = {"--run": "run.json", "--dataset": "data", "--partition": "partition.npz", "--out": out}
    words = [word for option, file in files.items() for word in (option, str(tmp_path / file))]
    return cli.main(["train", *words, "--device", "cpu"])
