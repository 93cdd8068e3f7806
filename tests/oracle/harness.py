"""A small federated problem in float64, for the engine and as plain tensors.

The problem has what breaks careless code: clients of unequal size, ragged last batches, partial participation, a clip
that acts on half of the gradients, weight decay, a falling learning rate, several local epochs.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from flatfed import algorithms, models
from flatfed.data import dataset as datasets
from flatfed.data import manifest
from flatfed.data import partition as partitions
from flatfed.engine import batches
from flatfed.engine.job import assembly, interruption
from flatfed.engine.job.inputs import Identity, load_data
from flatfed.engine.simulation import Simulation
from flatfed.files import digest_arrays
from flatfed.runs import record as records

SIZES = [7, 12, 5, 9, 10, 6]
DROPOUT = {"name": "cnn", "options": {"pooling": "last", "dropout1": 0.25, "dropout2": 0.5}}  # a model that has some

IDENTITY = Identity("of its description", "of its partition", "of its data", {"engine": 1})  # of some run


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
    path = folder / "partition.npz"
    scheme = "iid" if len(sizes) > 1 else "central"
    spec = {"scheme": scheme, "clients": len(sizes), "seed": 3, "dataset_digest": digest}
    np.savez(
        path,
        indices=indices,
        offsets=offsets,
        test=np.arange(count, count + test),
        class_counts=counts,
        spec=np.array(json.dumps(spec)),
    )
    return data, path


def dealt_to(folder: Path, seed: int) -> Path:
    """Return a partition file of ``seed`` that deals as the problem's, which is of seed 3."""
    path = folder / f"partition{seed}.npz"
    with np.load(folder / "partition.npz") as there:
        spec = {**json.loads(str(there["spec"])), "seed": seed}
        np.savez(path, **{**there, "spec": np.array(json.dumps(spec))})
    return path


def description(name: str, params: dict | None = None, **changes) -> dict:
    """Return a run description of the problem in float64; ``changes`` replace its top-level keys."""
    base = {
        "format": 1,
        "scale": "test",
        "protocol": "problem",
        "split": "test",
        "algorithm": name,
        "seed": 3,
        "dataset": {"name": "problem", "classes": 3, "shape": [1, 8, 8], "mean": [0.4], "std": [0.25]},
        "partition": {"scheme": "iid", "clients": len(SIZES)},
        "sampling": {"scheme": "bernoulli", "fraction": 0.5, "sampler": "keyed"},
        "model": {"name": "cnn_tiny", "options": {}},
        "rounds": 4,
        "batch_size": 4,
        "local_epochs": 2,
        "learning_rate": 0.2,
        "learning_rate_decay": 0.9,
        "weight_decay": 0.01,
        "clip_norm": 1.5,
        "augmentation": "none",
        "update": {"name": name, "params": params or {}},
        "evaluation": {"every": 1, "sets": ["test"], "batch_size": 7},
        "executor": {"cpu": "stacked", "cuda": "stacked"},
        "precision": "float64",
        "checkpoint_every": 2,
    }
    return {**base, **changes}


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
        write_problem(folder)
    data, dealt = datasets.load(folder / "data"), partitions.load(folder / "partition.npz")
    places = data, dealt, torch.device("cpu"), executor
    return assembly.simulation(spec, *places, pause=lambda: interruption.check(), **options)


def weights(folder: Path, spec: dict, executor: str = "stacked", rounds: int | None = None) -> torch.Tensor:
    """Return the server's model (parameters,) after the run's rounds."""
    run = simulation(folder, spec, executor)
    for _ in range(spec["rounds"] if rounds is None else rounds):
        run.advance()
    return run.server["w"][0].clone()


class Reference:
    """The problem of a description as plain tensors: ``w`` the initial weights, ``m`` clients with their ``members``.

    Shares with flatfed: the initial weights, the batches, and the model's forward pass.
    """

    def __init__(self, folder: Path, spec: dict):
        if not (folder / "partition.npz").exists():
            write_problem(folder)
        run = simulation(folder, spec)
        self.spec = spec
        self.w = run.weights.initial.clone()
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
        dealt = batches.plan(
            np.array([client]),
            self.members,
            batches.Schedule(self.spec["batch_size"], self.spec["local_epochs"], self.spec.get("local_steps")),
            seed=self.spec["seed"],
            round_=round_,
            augmented=False,
        )
        return [dealt.index[0, k][dealt.weight[0, k] > 0] for k in range(dealt.length)]


def evaluated(run: Path, data: Path, partition: Path) -> dict[str, float]:
    """Return the scores of the model that the finished run in folder ``run`` ended with, computed on the CPU."""
    about = records.read_finished(run).description
    found = assembly.simulation(about, *load_data(about, data, partition), torch.device("cpu"), "sequential")
    taps, tensors = getattr(found.weights, "taps", None), load_file(run / records.MODEL)
    names = found.layout.names if taps is None else taps.full.names
    row = torch.cat([tensors[name].reshape(-1) for name in names]).to(found.weights.initial)
    return found.evaluate(row if taps is None else taps.reduce(row))
