"""The results of tests/small_project: its data and partitions by FlatFed's commands, its runs and analyses made up."""

from __future__ import annotations

import contextlib
import io
import json
import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import made
from flatfed import cli
from flatfed.data import dataset, partition
from flatfed.runs.landscape_file import Landscape, write
from flatfed.runs.record import Digests, read_finished

PROJECT = Path(__file__).parent / "small_project"

#: Dataset -> its training and test images.
IMAGES = {"pictures": (240, 80), "dots": (120, 40)}

#: Shares of the final accuracy in the rounds.
RISE = {"paper": (0.5, 0.7, 0.85, 0.9, 0.95, 1.0), "preview": (0.5, 0.75, 0.9, 1.0)}

#: The parts of a run's record that no description decides.
RECORD: dict[str, Any] = {
    "executor": "sequential", "precision": "float32", "device": "cpu", "seconds": 6.0, "peak_memory_bytes": 3 * 2**20,
    "libraries": {"python": "3.11", "torch": "2.14"}, "finished": "2026-11-22T10:00:00+00:00",
    "host": {"processor": "A <fast> CPU", "instructions": ["avx2"], "gpu": None},
}  # fmt: skip


def flatfed(*words: str) -> str:
    """Call a command of FlatFed in this process, which must succeed; return its output."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        status = cli.main([str(word) for word in words])
    assert status == 0, output.getvalue()
    return output.getvalue()


def folder(row: str, seed: int, scale: str = "paper") -> str:
    """Return the folder of a run; ``row``: protocol, split and algorithm, with slashes."""
    return f"results/{scale}/runs/{row}/seed{seed}"


def fetch() -> None:
    """Write both datasets: random pixels, and classes in turn."""
    for name, (train, test) in IMAGES.items():
        pixels = np.random.default_rng(0).integers(0, 256, (train + test, 8, 8), np.uint8)
        labels = np.arange(train + test) % 4
        arrays = {"train_images": pixels[:train], "test_images": pixels[train:]}
        np.savez(f"{name}.npz", **arrays, train_labels=labels[:train], test_labels=labels[train:])
        about = {"name": name, "classes": 4, "shape": [1, 8, 8], "train": train, "test": test}
        about["source"] = {"source": "npz", "path": f"{name}.npz"}
        flatfed("fetch", "--spec", json.dumps(about), "--out", f"resources/{name}")


def describe(*folders: str) -> list[dict[str, Any]]:
    """Return the descriptions of runs."""
    return [json.loads(line) for line in flatfed("describe", *folders).splitlines()]


def deal(description: dict[str, Any]) -> dict[str, Any]:
    """Write the partition of a run, unless it exists; return the digests of dataset and partition, and the images."""
    about = {**description["partition"], "seed": description["seed"]}
    data = f"resources/{about['dataset']}"
    protocol = description["protocol"].partition("~")[0]  # variants have the partitions of their protocol
    row = (protocol, description["split"], f"seed{about['seed']}.npz")
    path = Path("results", description["scale"], "partitions", *row)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        flatfed("partition", "--spec", json.dumps(about), "--dataset", data, "--out", str(path))
    images = dict(zip(("train", "test"), IMAGES[about["dataset"]], strict=True))
    digests = {"dataset_digest": dataset.load(data).digest, "partition_digest": partition.load(path).digest}
    return {**digests, "images": images}


def runs(row: str, finals: Sequence[float | None], scale: str = "paper", rounds: int | None = None, **record: Any):
    """Write the runs of seeds 1, 2, ...: the accuracy rises to that of ``finals``, an absent run has None.

    ``rounds``: fewer rounds than configured; ``record``: as that of :func:`made.run`.
    """
    seeds = [seed for seed, final in enumerate(finals, 1) if final is not None]
    for seed, description in zip(seeds, describe(*(folder(row, seed, scale) for seed in seeds)), strict=True):
        path = Path(folder(row, seed, scale))
        path.mkdir(parents=True)
        (path / "model.safetensors").write_bytes(row.encode())
        about = {**RECORD, **deal(description), **record}
        made.run(path, metrics(finals[seed - 1], scale, rounds), settings=description, **about)


def metrics(final: float, scale: str, rounds: int | None = None) -> dict[str, list[float]]:
    """Return the columns of metrics.csv."""
    accuracies = [share * final for share in RISE[scale][:rounds]]
    numbers = [*range(1, len(accuracies) + 1)]
    return {
        **{"round": numbers, "test_accuracy": accuracies, "train_accuracy": accuracies},
        "node_train_accuracy": [accuracy + 0.01 for accuracy in accuracies],
        **{key: [4e9 * number for number in numbers] for key in ("download_bytes", "upload_bytes")},
        "consistency": [0.5 - 0.01 * number for number in numbers],
    }


def analysis(row: str, seed: int, name: str) -> tuple[Path, dict[str, Any]]:
    """Return the file of an analysis, and what it says of its run."""
    path = Path(folder(row, seed).replace("/runs/", "/analysis/"), name)
    path.parent.mkdir(parents=True, exist_ok=True)
    found = read_finished(folder(row, seed))
    digests = Digests.of_run(found, found.files["model.safetensors"])
    algorithm = row.split("/")[-1]
    about = {"scale": "paper", "algorithm": algorithm, "digests": digests, "diverged_at": found.diverged_at}
    return path, about


def hessians(row: str, *estimates: Any, **changes: Any) -> None:
    """Write hessian.json of seeds 1, 2, ...: of ``estimates``, arguments of :func:`made.hessian`; None: it diverged."""
    for seed, numbers in enumerate(estimates, 1):
        path, about = analysis(row, seed, "hessian.json")
        about = {"run": f"{row}/seed{seed}", **about, **changes}
        made.written(path, made.hessian(*numbers, **about) if numbers else made.hessian_of_diverged(**about))


def surface(row: str, depth: float, **about: Any) -> None:
    """Write the loss surface of seed 1: a bowl of a ``depth``, with one value that is not finite.

    ``about``: changes of what it says of itself, of its model (``name``, ``digests``) or of its set-up.
    """
    path, of_run = analysis(row, 1, "surface.npz")
    along = np.linspace(-1, 1, 5)
    loss = (depth + 2 * along[:, None] ** 2 + along[None, :])[None]
    loss[0, 0, 0] = np.inf
    of_run = {"name": f"{row}/seed1", **of_run}
    model = made.landscape_model(**{key: about.pop(key, value) for key, value in of_run.items()})
    write(path, Landscape(made.landscape_about([model], **about), along, along, loss, loss / 20))


def time(row: str, seconds: float, **changes: Any) -> None:
    """Write the seconds of a round, for all seeds."""
    (description,) = describe(folder(row, 1))
    path = Path(folder(row, 1).replace("/runs/", "/analysis/")).parent / "timing.json"
    made.timing(path, description, seconds, seconds / 2, **changes)


def fill() -> None:
    """Write the results into the current folder, which holds a copy of the project: every state that is shown."""
    fetch()
    dirichlet, pathological, iid = (f"small/{split}" for split in ("dir0.6", "path2", "iid"))
    # A number that differs from the printed one, one that agrees, and a run that diverged.
    runs(f"{dirichlet}/fedavg", (0.81, 0.8116))
    runs(f"{dirichlet}/fedsam", (0.81, 0.82))
    runs(f"{dirichlet}/fedsmoo~s", (0.8,))
    runs(f"{dirichlet}/fedsmoo~s", (None, 0.3), rounds=2, diverged_at=3)
    # Nearly the printed number, one seed missing, both seeds missing.
    runs(f"{pathological}/fedavg", (0.5999, 0.60002), executor="stacked")
    runs(f"{pathological}/fedsam", (0.7,))
    runs("small~three/dir0.6/fedavg", (0.7, 0.71, 0.72))
    # Half a point between the rows in every seed: a best and a second row.
    for place, row in enumerate(("fedavg", "fedsam", "fedsmoo")):
        wobble = (0.0, 0.03, 0.01, 0.0, 0.03, 0.01, 0.02)
        runs(f"small~seven/iid/{row}", tuple(0.8 - 0.005 * place + step for step in wobble))
    # In no order.
    for row, finals in (("fedavg", (0.7, 0.71)), ("fedsam", (0.71, 0.7))):
        runs(f"small~seven/path2/{row}", (finals * 4)[:7])
    # Targets of 60 and 80 percent: both reached, the second by one seed, by none.
    for row, finals in (("fedavg", (0.85, 0.9)), ("fedsam", (0.81, 0.79)), ("fedsmoo~s", (0.7, 0.75))):
        runs(f"{iid}/{row}", finals)
        runs(f"{iid}/{row}", finals, "preview")
    runs(f"{iid}/fedsmoo", (0.83, 0.85))
    time(f"{iid}/fedavg", 7.25)
    time(f"{iid}/fedsam", 0.00125, warning="the machine was busy: 3 of 2 cores")
    runs("small~window/iid/fedavg", (0.85, 0.9), images={"train": 200, "test": 80})
    runs("small/iid-p25/fedavg", (0.8, 0.82))
    runs("small/iid-p25/fedsam", (0.3,), rounds=2, diverged_at=3)
    for row, final in (("dfedsam", 0.75), ("dfedsam_mgs", 0.78)):
        runs(f"small/iid-ring/{row}", (final, final + 0.01))
    for row, height in (("fedavg", 0.5), ("fedsam", 0.25)):
        about = {"images_sha256": made.DIGEST, "perturbation_drift": 0.75}
        probes = [{**about, "round": number, "sharpness": height / (1 + number)} for number in (0, 3, 6)]
        probes[0]["perturbation_drift"] = None
        runs(f"small~probe/iid/{row}", (0.8,), probes=probes, images={"train": 200, "test": 80})
    # Estimates that agree with PyHessian's, that are too far apart, without them, negative, of a diverged run.
    hessians(f"{iid}/fedavg", (10.0, 100, (10.01, 105)), (10.5, 102, (10.51, 105)))
    warnings = ["PyHessian's trace has not converged"]
    hessians(f"{iid}/fedsam", (20.0, 200, (20.01, 260)), (20.5, 200, (20.51, 260)), warnings=warnings)
    hessians(f"{iid}/fedsmoo~s", (9.0, -90), (9.5, 80))
    hessians(f"{dirichlet}/fedsam", (12.0, 110), (13.0, 120))
    hessians(f"{dirichlet}/fedsmoo~s", (5.0, 50), None)
    surface(f"{iid}/fedavg", 1.0)
    surface(f"{iid}/fedsam", 2.0)
    surface("small/iid-p25/fedsam", math.nan)
    # One seed elsewhere, of a row that is not finished and has reached its first target.
    shutil.copytree(folder(f"{iid}/fedavg", 1), Path("elsewhere", f"{iid}/fedavg/seed1"))
    (description,) = describe(folder(f"{iid}/fedsam", 1))
    columns = metrics(0.8, "paper", 4)
    made.so_far(f"elsewhere/{iid}/fedsam/seed1", columns, settings=description, **deal(description))


def clone(root: Path) -> None:
    """Copy the project to ``root``, with another protocol: the same on other data."""
    shutil.copytree(PROJECT, root, dirs_exist_ok=True)
    protocols = root / "config/protocols"
    other = (protocols / "small.yaml").read_text().replace("dataset: pictures", "dataset: photos")
    (protocols / "other.yaml").write_text(other)
