"""One training job: a run description in, ``metrics.csv``, ``model.safetensors`` and ``run.json`` out.

Needs torch, numpy and safetensors, nothing else, so that a run can be made on a bare GPU host and copied back.
"""

from __future__ import annotations

import csv
import datetime
import math
import os
import platform
import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import torch
from safetensors.torch import save

import flatfed
from flatfed.data import dataset as datasets
from flatfed.data import partition as partitions
from flatfed.engine import checkpoint
from flatfed.engine.evaluate import evaluate as evaluate_model
from flatfed.engine.progress import Progress
from flatfed.engine.simulation import Simulation
from flatfed.errors import DataError, FlatFedError
from flatfed.files import digest_json, read_json, write_json, write_whole


def pick_device(wanted: str) -> torch.device:
    """Return the device for ``auto``, ``cpu`` or ``cuda``; FlatFedError where cuda is asked for and absent."""
    if wanted == "cuda" and not torch.cuda.is_available():
        raise FlatFedError(
            "device: cuda was asked for, but torch sees no GPU. Use `--config device=cpu` (or auto), or check that "
            "CUDA_VISIBLE_DEVICES and the driver fit this build of torch"
        )
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(wanted)


def train(
    description: dict[str, Any],
    dataset: str | os.PathLike[str],
    partition: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    device: str = "auto",
    threads: int = 1,
    code_digest: str = "",
) -> None:
    """Train the run ``description`` on ``dataset`` (a folder) dealt as ``partition`` (an .npz); write folder ``out``.

    Goes on from the checkpoint in ``out`` if it is of this very run; otherwise sets it aside and starts anew. A run
    whose loss or weights stop being finite ends at that round: ``diverged_at`` in run.json, no later line in
    metrics.csv.

    Raises DataError when data or partition do not fit the description, FlatFedError for a missing device.
    """
    out = Path(out)
    torch.set_num_threads(threads)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    place = pick_device(device)
    data, dealt = datasets.load(dataset), partitions.load(partition)
    _check(description, data, dealt, str(dataset), str(partition))
    identity = {
        "description": digest_json(description),
        "code": code_digest,
        "partition": dealt.digest,
        "dataset": data.digest,
    }
    path = out / checkpoint.NAME
    chosen = checkpoint.executor_of(path, identity)
    simulation = Simulation(description, data, dealt, place, chosen or description["executor"][place.type])
    lines = checkpoint.restore(path, simulation) if chosen else []
    label = (
        "/".join(str(description[key]) for key in ("protocol", "split", "algorithm")) + f"/seed{description['seed']}"
    )
    where = torch.cuda.get_device_name(place) if place.type == "cuda" else f"cpu, {threads} thread(s)"
    start = f"from round {simulation.round} of its checkpoint" if chosen else "from the start"
    print(f"{label}: {description['rounds']} rounds on {where}, {simulation.executor.name}, {start}", file=sys.stderr)
    progress = Progress(label, description["rounds"], simulation.round)
    diverged = None
    while simulation.round < description["rounds"] and diverged is None:
        line = simulation.advance()
        if line is not None and not all(math.isfinite(line[key]) for key in ("train_loss", "test_loss", "consistency")):
            diverged = simulation.round
            print(f"{label}: diverged at round {diverged}: {line}", file=sys.stderr)
            break
        if line is not None:
            lines.append(line)
        if simulation.round % description["checkpoint_every"] == 0 and simulation.round < description["rounds"]:
            checkpoint.write(path, identity, simulation, lines)
        progress.round(simulation.round, line)
    _write(out, simulation, lines, identity, threads, diverged)
    path.unlink(missing_ok=True)


def _check(description: dict[str, Any], data: Any, dealt: Any, dataset: str, partition: str) -> None:
    """Refuse data that are not those of the description, naming both."""
    wanted = description["dataset"]
    if list(data.images.shape[1:]) != list(wanted["shape"]):
        raise DataError(
            f"{dataset}: images of shape {list(data.images.shape[1:])}, but dataset {wanted['name']!r} of the run "
            f"has {wanted['shape']} (channels, height, width)"
        )
    if data.classes != wanted["classes"]:
        raise DataError(f"{dataset}: {data.classes} classes, but the run's {wanted['name']!r} has {wanted['classes']}")
    if len(dealt.indices) and int(dealt.indices.max()) >= len(data.labels):
        raise DataError(f"{partition}: deals image {int(dealt.indices.max())}, but {dataset} has {len(data.labels)}")
    clients = len(dealt.offsets) - 1
    if clients != description["partition"]["clients"]:
        raise DataError(f"{partition}: {clients} clients, but the run has {description['partition']['clients']}")
    made_from = dealt.spec.get("dataset_digest", data.digest)
    if made_from != data.digest:
        raise DataError(
            f"{partition}: was dealt from other data than {dataset} holds (digests {made_from[:12]} and "
            f"{data.digest[:12]}); make the partition again"
        )


def _write(
    out: Path,
    simulation: Simulation,
    lines: list[dict[str, Any]],
    identity: dict[str, str],
    threads: int,
    diverged: int | None,
) -> None:
    """Write metrics.csv, model.safetensors and, last, run.json."""
    description, place = simulation.description, simulation.device
    with write_whole(out / "metrics.csv", "w") as file:
        writer = csv.DictWriter(file, fieldnames=list(lines[0]) if lines else COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    weights = simulation.layout.views(next(iter(simulation.algorithm.evaluated(simulation.server).values()))[0])
    with write_whole(out / "model.safetensors") as file:
        file.write(save({name: value.cpu().contiguous() for name, value in weights.items()}))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    device_peak = torch.cuda.max_memory_allocated(place) if place.type == "cuda" else None
    write_json(
        out / "run.json",
        {
            "description": description,
            "partition_digest": identity["partition"],
            "dataset_digest": identity["dataset"],
            "code_digest": identity["code"],
            "description_digest": identity["description"],
            "rounds_done": len(lines) and lines[-1]["round"],
            "diverged_at": diverged,
            "device": place.type,
            "executor": simulation.executor.name,
            "precision": description["precision"],
            "threads": threads,
            "parameters": simulation.layout.size,
            "seconds": round(sum(simulation.seconds.values()), 3),
            "seconds_training": round(simulation.seconds["training"], 3),
            "seconds_evaluation": round(simulation.seconds["evaluation"], 3),
            "peak_memory_bytes": peak,
            "peak_device_memory_bytes": device_peak,
            "versions": {
                "flatfed": flatfed.__version__,
                "python": platform.python_version(),
                "torch": torch.__version__,
                "numpy": np.__version__,
                "safetensors": safetensors.__version__,
            },
            "host": {
                "system": platform.platform(),
                "processor": platform.processor() or platform.machine(),
                "gpu": torch.cuda.get_device_name(place) if place.type == "cuda" else None,
            },
            "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        },
    )


COLUMNS = (
    "round",
    "learning_rate",
    "train_loss",
    "test_loss",
    "test_accuracy",
    "clients",
    "consistency",
    "download_bytes",
    "upload_bytes",
    "seconds",
)


def evaluate(
    run: str | os.PathLike[str],
    dataset: str | os.PathLike[str],
    partition: str | os.PathLike[str],
    *,
    device: str = "auto",
    threads: int = 1,
) -> dict[str, float]:
    """Return test_loss and test_accuracy of the finished run in folder ``run``, computed anew from its model."""
    from safetensors.torch import load_file

    torch.set_num_threads(threads)
    run = Path(run)
    description = read_json(run / "run.json")["description"]
    place = pick_device(device)
    data, dealt = datasets.load(dataset), partitions.load(partition)
    _check(description, data, dealt, str(dataset), str(partition))
    simulation = Simulation(description, data, dealt, place, "sequential")
    weights = load_file(run / "model.safetensors")
    row = torch.cat([weights[name].reshape(-1) for name in simulation.layout.names]).to(place, simulation.dtype)
    loss, accuracy = evaluate_model(
        simulation.model,
        simulation.layout,
        row,
        simulation.data,
        simulation.test,
        description["evaluation"]["batch_size"],
    )
    return {"test_loss": loss, "test_accuracy": accuracy}
