"""The workloads of benchmarks/rounds.py: sizes, settings, and random images."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from flatfed.data.dataset import Dataset
from flatfed.data.partition import Partition
from flatfed.runs.run_config import RunConfig

ALGORITHMS: dict[str, dict[str, Any]] = {  # parameters in FedSMOO's CIFAR-10 set-up
    "fedavg": {},
    "fedsam": {"rho": 0.01},
    "scaffold": {},
    "fedsmoo": {"penalty": 0.1, "rho": 0.1},
}
TEST_IMAGES = 10_000  # of CIFAR-10
SEED = 1


@dataclass(frozen=True)
class Workload:
    """A round: ``active`` of ``total`` clients pass ``epochs`` times over ``images`` of ``distinct`` training images.

    ``what``: the set-up; ``shape`` (C, H, W); ``executor``: by device; ``test``: test images; ``changed``: differences
    to the set-up; ``shrunk``: its local steps over the workload's.
    """

    name: str
    what: str
    model: str
    options: dict[str, Any]
    shape: tuple[int, int, int]
    classes: int
    active: int
    total: int
    images: int
    batch: int
    epochs: int
    augmentation: str
    executor: dict[str, str]
    distinct: int = 50_000
    test: int = TEST_IMAGES
    changed: dict[str, int] = field(default_factory=dict)
    shrunk: float = 1.0

    @property
    def steps(self) -> int:
        """Local steps of a client."""
        return self.epochs * -(-self.images // self.batch)

    def but(self, *, clients: int | None = None, total: int | None = None, steps: int | None = None) -> Workload:
        """Return the workload with other numbers of active clients, all clients and local steps (one epoch)."""
        workload = self
        if clients is not None:
            workload = replace(workload, active=clients, total=max(clients, workload.total))
        if total is not None:
            workload = replace(workload, total=total)
        if steps is not None:
            workload = replace(workload, epochs=1, images=steps * workload.batch)
        sizes = {"active": "clients a round", "total": "clients", "steps": "local steps"}
        numbers = {word: (getattr(self, key), getattr(workload, key)) for key, word in sizes.items()}
        changed = {word: new for word, (old, new) in numbers.items() if new != old}
        times = self.active * self.steps / (workload.active * workload.steps)
        return replace(workload, changed={**self.changed, **changed}, shrunk=self.shrunk * times)

    def config(self, algorithm: str, precision: str = "float32", **changes: Any) -> RunConfig:
        """Return the settings of ``algorithm``; ``changes`` replace some."""
        channels = self.shape[0]
        settings = {
            **{"scale": "benchmark", "protocol": self.name, "split": "made-up", "algorithm": algorithm, "seed": SEED},
            "dataset": {
                "name": "made-up",
                "classes": self.classes,
                "shape": list(self.shape),
                "mean": [0.5] * channels,
                "std": [0.25] * channels,
            },
            "partition": {"scheme": "iid", "clients": self.total},
            "sampling": {"scheme": "fixed", "fraction": self.active / self.total, "sampler": "keyed"},
            "model": {"name": self.model, "options": self.options},
            "rounds": 1_000_000,  # no round is the last, which would be evaluated
            "batch_size": self.batch,
            "local_epochs": self.epochs,
            "learning_rate": 0.01,
            "learning_rate_decay": 1.0,
            "weight_decay": 0.001,
            "clip_norm": 10.0,
            "augmentation": self.augmentation,
            "update": {"name": algorithm, "params": ALGORITHMS.get(algorithm, {})},
            "evaluation": {"every": 1_000_000, "sets": ["test"], "batch_size": 1000},
            "executor": self.executor,
            "precision": precision,
        }
        return RunConfig(**{**settings, **changes})

    def data(self) -> tuple[Dataset, Partition]:
        """Return random images and an even partition of them, with replacement."""
        rng = np.random.default_rng(SEED)
        count = self.distinct + self.test
        images = rng.integers(0, 256, (count, *self.shape), dtype=np.uint8)
        labels = rng.integers(0, self.classes, count)
        dataset = Dataset("made-up", images, labels, None, self.classes, self.distinct, self.test, "", ())
        indices = rng.integers(0, self.distinct, self.total * self.images)
        offsets = np.arange(self.total + 1) * self.images
        test = np.arange(self.distinct, count)
        counts = np.zeros((self.total, self.classes), dtype=np.int64)
        return dataset, Partition(indices, offsets, test, counts, {}, "")


_RESNET = {"cpu": "sequential", "cuda": "graph"}  # as in the protocols
_TINY = {"cpu": "stacked", "cuda": "stacked"}
_PLAIN = {"pooling": "each", "dropout1": 0.0, "dropout2": 0.0}
_W3 = Workload(
    "W3-10",
    "preview of FedSMOO's CIFAR-10 set-up: tiny CNN, images of the digits' shape and number, 10 clients a round",
    "cnn_tiny",
    {},
    (1, 8, 8),
    10,
    active=10,
    total=100,
    images=43,
    batch=10,
    epochs=3,
    augmentation="none",
    executor=_TINY,
    distinct=1297,
    test=500,
)

WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload(
            "W1",
            "FedSMOO's CIFAR-10 set-up: ResNet-18 with GroupNorm and 7x7 stem, 10 of 100 clients, 50 steps of 50",
            "resnet18_gn",
            {"stem": "imagenet", "groups": 2},
            (3, 32, 32),
            10,
            active=10,
            total=100,
            images=500,
            batch=50,
            epochs=5,
            augmentation="crop_flip_half",
            executor=_RESNET,
        ),
        Workload(
            "W2-32",
            "FedSMOO's CIFAR-10 set-up with a CNN (fedsmoo-cifar10~cnn): 10 of 100 clients, 20 steps of 50",
            "cnn",
            _PLAIN,
            (3, 32, 32),
            10,
            active=10,
            total=100,
            images=500,
            batch=50,
            epochs=2,
            augmentation="crop_flip_half",
            executor=_RESNET,
        ),
        Workload(
            "W2-28",
            "FedSAM's EMNIST set-up (CNN with dropout, 62 classes, batch 32), one pass of 25 steps, 10 of 100 clients",
            "cnn",
            {},
            (1, 28, 28),
            62,
            active=10,
            total=100,
            images=800,
            batch=32,
            epochs=1,
            augmentation="none",
            executor=_RESNET,
        ),
        _W3,
        replace(_W3, name="W3-100", what=_W3.what.replace("10 clients", "all 100 clients"), active=100),
    )
}
