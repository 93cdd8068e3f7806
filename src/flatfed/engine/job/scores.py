"""What a finished run's model comes to, computed anew."""

from __future__ import annotations

import os
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file

from flatfed.engine.job import assembly
from flatfed.engine.job.inputs import load_data
from flatfed.engine.job.machine import pick_device, set_up
from flatfed.errors import DataError
from flatfed.runs import identity
from flatfed.runs import record as records


def evaluate(
    run: str | os.PathLike[str],
    dataset: str | os.PathLike[str],
    partition: str | os.PathLike[str],
    *,
    device: str = "auto",
    threads: int = 1,
) -> dict[str, float]:
    """Return losses and accuracies of the finished run in folder ``run``, computed anew from its model.

    Raises DataError where the model cannot be read, or data or partition do not fit the run.
    """
    set_up(threads)
    run = Path(run)
    record = records.read_finished(run)
    description = identity.updated(record.description)
    place = pick_device(device)
    data, dealt = load_data(description, dataset, partition)
    for key, given in ("dataset_digest", data.digest), ("partition_digest", dealt.digest):
        if (recorded := getattr(record, key)) != given:
            raise DataError(f"{run / records.RECORD}: {key} is {recorded[:12]}, but the one given has {given[:12]}")
    record.check_files(run, records.MODEL)
    simulation = assembly.simulation(description, data, dealt, place, "sequential")
    try:
        weights = load_file(run / records.MODEL)
    except (OSError, SafetensorError) as error:
        raise DataError(f"{run / records.MODEL}: cannot be read as a model ({error})") from error
    return simulation.evaluate(simulation.weights.row(weights))
