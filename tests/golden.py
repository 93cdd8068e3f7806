"""Golden values guard the versions (:mod:`flatfed.runs.versions`): a run's numbers change only with a version.

A case is a run of three rounds in float64. Together the cases have all algorithms with their choices, and all partition
schemes, topologies and evaluations of the preview. golden.json holds one entry for each case and its versions; entries
are never changed or removed. ``python tests/golden.py`` appends the missing ones.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from repository import ROOT

sys.path.insert(0, str(ROOT / "src"))

import made
from flatfed import algorithms, plan
from flatfed.data import dataset as datasets
from flatfed.data import partition as partitions
from flatfed.data import sources
from flatfed.engine.callbacks import Callback
from flatfed.engine.job import assembly
from flatfed.engine.probe import Probe
from flatfed.engine.simulation import Simulation
from flatfed.files import digest_json
from flatfed.plan import Experiment, Run, at_scale
from flatfed.runs import versions
from flatfed.runs.run_config import RunConfig

FILE = Path(__file__).with_name("golden.json")
COMMAND = "python tests/golden.py"
PROJECTIONS = 4
FLOAT64 = {"precision": "float64", "rounds": 3}
#: Protocol and split of algorithms that no table has.
HOME = "fedsmoo-cifar10", "dir0.6-100"
#: Models and an augmentation that the preview does not have, trained by FedSMOO. A step of ResNet-18 takes a second.
MODELS: dict[str, dict[str, Any]] = {
    "cnn": {"model": {"name": "cnn", "options": {"pooling": "last", "dropout1": 0.25, "dropout2": 0.5}}},
    "cnn_5x5": {"model": {"name": "cnn_5x5", "options": {}}},
    "resnet18_bn": {"model": {"name": "resnet18_bn", "options": {}}, "local_steps": 1},
    "resnet18_gn": {
        **{"model": {"name": "resnet18_gn", "options": {"stem": "imagenet", "groups": 2}}},
        **{"augmentation": "crop_flip_half", "local_steps": 1},
    },
    "vit_b32": {"model": {"name": "vit_b32", "options": {"patch": 4, "depth": 2, "width": 16, "heads": 2, "mlp": 32}}},
}


@dataclass(frozen=True)
class Case:
    """A run's settings and the specifications of its data; a change of one of these changes the ``name``."""

    run: str
    config: RunConfig
    dataset: dict[str, Any]
    partition: dict[str, Any]

    @property
    def name(self) -> str:
        """Name of the run and the first digits of the digest of all that the configuration says of it."""
        return f"{self.run} {digest_json([self.config.as_json(), self.dataset, self.partition])[:8]}"

    def with_(self, label: str = "", **changes: Any) -> Case:
        """Return the case with a label behind its run's name and ``changes`` of its settings."""
        return replace(self, run=f"{self.run}{label}", config=self.config.changed(**changes))


def features(run: Run) -> set[str]:
    """Return the features of a run that cases are to cover; numbers are no features."""
    settings = run.config.as_json()
    partition, update = settings["partition"], settings["update"]
    parts = {
        "algorithm": update["name"],
        **{f"{update['name']}.{key}": value for key, value in update["params"].items() if isinstance(value, str)},
        **{key: settings[key] for key in ("model", "augmentation", "precision")},
        **{key: partition.get(key) for key in ("scheme", "replacement", "sampler", "balanced", "assignment")},
        **{key: key in partition for key in ("images_of", "client_test")},
        "sampling": settings["sampling"]["scheme"],
        "topology": settings.get("topology", {}).get("graph"),
        "evaluation": settings["evaluation"]["sets"],
        **{key: key in settings for key in ("probe", "local_steps", "weights")},
    }
    return {f"{key} {json.dumps(value, sort_keys=True)}" for key, value in parts.items()}


def case_of(configuration: Experiment, run: Run) -> Case:
    """Return the case of a preview run: float64, three rounds."""
    partition = configuration.partition_spec("preview", run.protocol, run.split, run.seed).as_written()
    name = f"{run.protocol}/{run.split}/{run.algorithm}"
    dataset = configuration.catalog.dataset_spec(run.dataset).as_written()
    # The digests in golden.json are of settings with this key, which has no effect any more.
    every = 10 if run.protocol.partition("~")[0] == "fedsmoo-cifar10" else 20
    return Case(name, run.config.changed(**FLOAT64, checkpoint_every=every), dataset, partition)


def cases() -> list[Case]:
    """Return few runs that together have every feature of the preview's runs, every algorithm and the MODELS."""
    configuration = plan.load(ROOT)
    preview = configuration.all_at("preview")
    runs = {}
    for table in preview.tables.items():
        runs |= {run.path: run for run in made.table_runs(configuration, "preview", *table)}
    for figure in preview.figures:
        runs |= at_scale.figure(configuration, "preview", figure).runs
    shipped = [name for name in algorithms.names() if not algorithms.own_file(name)]
    covers = {path: features(r) for path, r in runs.items() if r.seed == 1 and r.config.update.name in shipped}
    missing, chosen = set().union(*covers.values()), []
    while missing:
        best = max(covers, key=lambda path: (len(covers[path] & missing), path))
        missing -= covers[best]
        chosen.append(runs[best])
    covered = {run.config.update.name for run in chosen}
    chosen += [configuration.run("preview", *HOME, name, 1) for name in shipped if name not in covered]
    fedsmoo = case_of(configuration, configuration.run("preview", *HOME, "fedsmoo", 1))
    models = [fedsmoo.with_(f" {label}", **changes) for label, changes in MODELS.items()]
    return [*(case_of(configuration, run) for run in chosen), *models]


def simulation(case: Case, folder: Path, executor: str) -> Simulation:
    """Return the simulation of a case before its first round; its data are made in ``folder`` when missing."""
    data = folder / digest_json(case.dataset)
    partition = folder / f"{digest_json([case.dataset, case.partition])}.npz"
    if not data.exists():
        sources.fetch(case.dataset, data)
    if not partition.exists():
        partitions.make(case.partition, data, partition)
    places = datasets.load(data), partitions.load(partition), torch.device("cpu"), executor
    return assembly.simulation(case.config, *places)


def sketch(name: str, tensor: torch.Tensor) -> list[float]:
    """Return the L2 norm of ``tensor`` as a matrix, and its products with random rows and columns keyed by ``name``.

    Each product has the norm as its standard deviation.
    """
    matrix = tensor.numpy().reshape(len(tensor) if tensor.ndim else 1, -1)
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    generator = np.random.Generator(np.random.PCG64(seed))
    left, right = (generator.standard_normal((PROJECTIONS, size)) for size in matrix.shape)
    return [float(np.linalg.norm(matrix)), *map(float, ((left @ matrix) * right).sum(axis=1))]


def values(run: Simulation) -> dict[str, list[float]]:
    """Train ``run`` to its end; return sketches of model, server and client state, and metrics by round and probe."""
    probe, lines = Probe() if run.config.probe else Callback(), []
    for _ in range(run.config.rounds):
        probe.before_round(run, run.sample())
        lines.append(run.advance())
    probe.finish(run)
    tensors = {f"model {name}": tensor for name, tensor in run.weights.tensors(run.server["w"][0]).items()}
    tensors |= {f"server {name}": vector for name, vector in run.server.items() if name != "w"}
    stored = {"local": "private"}  # name -> the one in golden.json, which is the key of the sketch
    tensors |= {f"clients {stored.get(name, name)}": rows for name, rows in run.state.store.items()}
    numbers = defaultdict(list)
    for line in [*filter(None, lines), *(probe.state() or [])]:
        for key, value in line.items():
            if isinstance(value, int | float) and key != "seconds":
                numbers[key].append(float(value))
    return {name: sketch(name, tensor) for name, tensor in tensors.items()} | numbers


def entries(text: str | None = None) -> list[dict[str, Any]]:
    """Return the entries of golden.json, or of its ``text``: case, versions and values of each."""
    return json.loads(FILE.read_text(encoding="utf-8") if text is None else text)


def stored(case: Case, among: list[dict[str, Any]]) -> dict[str, list[float]] | None:
    """Return the stored values of a case at its present versions; None where there are none."""
    key = case.name, versions.of_run(case.config)
    return next((entry["values"] for entry in among if (entry["case"], entry["versions"]) == key), None)


def main() -> None:
    """Append the entries of cases that have none at their present versions."""
    torch.set_num_threads(1)
    there = entries() if FILE.exists() else []
    with tempfile.TemporaryDirectory() as folder:
        for case in cases():
            if stored(case, there) is None:
                print(case.name, flush=True)
                found = values(simulation(case, Path(folder), "sequential"))
                there.append({"case": case.name, "versions": versions.of_run(case.config), "values": found})
    lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in there)
    part = FILE.with_suffix(".part")
    part.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    os.replace(part, FILE)


if __name__ == "__main__":
    main()
