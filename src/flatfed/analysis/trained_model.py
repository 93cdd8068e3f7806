"""A finished run for an analysis: its model, its data and a seeded choice of images."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from flatfed.algorithms._layout import Layout
from flatfed.data import augment
from flatfed.data.partition import Partition
from flatfed.data.streams import stream
from flatfed.engine import weights
from flatfed.engine.job.assembly import load_data
from flatfed.engine.job.machine import pick_device, set_up
from flatfed.engine.precision import STATE_DTYPES
from flatfed.engine.resident import Resident
from flatfed.engine.speed import products
from flatfed.errors import DataError
from flatfed.runs import record as records
from flatfed.runs.record import Digests, RunRecord


@dataclass(frozen=True)
class AnalysisInputs:
    """Data of a run and ``device`` of its analysis: auto, cpu or cuda; ``threads`` of torch on the CPU."""

    dataset: Path
    partition: Path
    device: str = "auto"
    threads: int = 1


@dataclass(frozen=True)
class TrainedModel:
    """A finished run: its ``model`` in eval mode, its weights as a flat ``row`` (parameters,), its data."""

    folder: Path
    record: RunRecord
    model: nn.Module
    layout: Layout
    row: Tensor
    data: Resident
    partition: Partition
    digests: Digests

    @property
    def provenance(self) -> dict[str, Any]:
        """Fields of an analysis file."""
        ids = {"algorithm": self.record.config.algorithm, "scale": self.record.config.scale}
        return {**ids, "digests": self.digests, "diverged_at": self.record.diverged_at}

    def batch(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return normalised images (n, channels, height, width) and labels (n,) at the positions ``index`` (n,)."""
        return augment.channels_last(self.data.batch(index)), self.data.labels[index]

    def draw_images(self, image_set: str, count: int | None, seed: int) -> Tensor:
        """Return the sorted positions (n,) of ``count`` images of ``image_set``, drawn without replacement.

        ``train``: the images of all clients, with repetitions, as a run evaluates them; ``test``: the test images.
        Without ``count``, or with fewer images, returns all, unsorted. The draw does not depend on the model.

        :raises DataError: the set is empty.
        """
        positions = self.partition.indices if image_set == "train" else self.partition.test
        if not len(positions):
            raise DataError(f"{self.folder}: has no {image_set} images")
        if count is not None and count < len(positions):
            positions = np.sort(stream(seed, "subset").choice(positions, count, replace=False))
        return torch.from_numpy(positions).to(self.row.device)


class Batches:
    """Batches of ``size`` normalised images and labels at the positions ``index`` (n,)."""

    def __init__(self, trained: TrainedModel, index: Tensor, size: int):
        self.trained, self.parts = trained, index.split(size)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return map(self.trained.batch, self.parts)


def load(run: Path, inputs: AnalysisInputs) -> TrainedModel:
    """Return the finished run in the folder ``run``.

    :raises DataError: no finished run, a damaged model file, or other data than the run's.
    :raises FlatFedError: the device is missing.
    """
    set_up(inputs.threads)  # as in training, including TF32, for the same losses
    record = records.read_finished(run)
    config = record.config
    device = pick_device(inputs.device)
    data, partition = load_data(config, inputs.dataset, inputs.partition)
    for key, digest in (("dataset", data.digest), ("partition", partition.digest)):
        recorded = getattr(record, f"{key}_digest")
        if digest != recorded:
            digests = f"digest {digest[:12]}, but the run was made with {recorded[:12]}"
            raise DataError(f"{getattr(inputs, key)}: not the {key} of {run} ({digests})")
    dtype = STATE_DTYPES[config.precision]
    model = products.with_products(weights.build(config), tuple(config.dataset.shape)).to(device, dtype)
    model.eval()
    layout = Layout.of(model)
    record.check_files(run, records.MODEL)
    row = _weights(run / records.MODEL, record, model, layout).to(device, dtype)
    digests = Digests.of_run(record, record.files[records.MODEL])
    resident = Resident(data, config.dataset, "none", device, dtype)
    return TrainedModel(run, record, model, layout, row, resident, partition, digests)


def _weights(path: Path, record: RunRecord, model: nn.Module, layout: Layout) -> Tensor:
    """Load a model file into ``model``; return its trained weights as a flat row (parameters,) on the CPU."""
    try:
        tensors = load_file(path)
        model.load_state_dict(tensors)
    except SafetensorError as error:
        raise DataError(f"{path}: cannot be read as a model ({error})") from error
    except RuntimeError as error:
        name, reason = record.config.model.name, " ".join(str(error).split())
        raise DataError(f"{path}: does not fit its run, of model {name!r} by run.json: {reason}") from None
    return torch.cat([tensors[name].reshape(-1) for name in layout.names])
