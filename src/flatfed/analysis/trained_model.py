"""A finished run as analyses see it: its model, the data it was trained on, and a seeded choice of images."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from torch import Tensor, nn

from flatfed import models
from flatfed.data import augment
from flatfed.data.partition import Partition
from flatfed.data.streams import stream
from flatfed.engine.job.inputs import load_data
from flatfed.engine.job.machine import pick_device, set_up
from flatfed.engine.layout import Layout
from flatfed.engine.precision import STATE_DTYPES
from flatfed.engine.resident import Resident
from flatfed.engine.speed import products
from flatfed.errors import DataError
from flatfed.runs import record as records
from flatfed.runs.analysed import Digests
from flatfed.runs.record import RunRecord


@dataclass(frozen=True)
class Inputs:
    """Folder of the ``dataset`` and file of the ``partition`` that runs were trained on; where they are analysed.

    ``device``: auto, cpu or cuda; ``threads``: CPU threads of torch.
    """

    dataset: Path
    partition: Path
    device: str = "auto"
    threads: int = 1


@dataclass(frozen=True)
class Trained:
    """The weights ``row`` (parameters,) that a run ended with, and ``model``, in eval mode, to put them into.

    ``record`` is run.json, ``partition`` and ``data`` what the run was trained on.
    """

    folder: Path
    record: RunRecord
    model: nn.Module
    layout: Layout
    row: Tensor
    data: Resident
    partition: Partition
    digests: Digests

    @property
    def facts(self) -> dict[str, Any]:
        """Whose model it is, as the files of analyses have it."""
        about = {key: self.record.description[key] for key in ("algorithm", "scale")}
        return {**about, "digests": self.digests, "diverged_at": self.record.diverged_at}

    def batch(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return normalised images (n, channels, height, width) and labels (n,) at the positions ``index`` (n,)."""
        return augment.channels_last(self.data.batch(index)), self.data.labels[index]

    def choose(self, which: str, count: int | None, seed: int) -> Tensor:
        """Return the positions (n,) of ``count`` images of the set ``which``, drawn without replacement, sorted.

        ``train``: the images of all clients, those given twice counted twice, as a run evaluates them; ``test``: the
        test images. All of them, in their own order, where ``count`` is None or not smaller. One seed draws the same
        images from the same partition, whatever the model.

        Raises DataError where there is none.
        """
        everything = self.partition.indices if which == "train" else self.partition.test
        if not len(everything):
            raise DataError(f"{self.folder}: has no {which} images")
        if count is not None and count < len(everything):
            everything = np.sort(stream(seed, "subset").choice(everything, count, replace=False))
        return torch.from_numpy(everything).to(self.row.device)


def load(run: Path, inputs: Inputs, precision: str | None = None) -> Trained:
    """Return the finished run in folder ``run`` with its data; ``precision`` float32 or float64, the run's if None.

    Raises DataError where the folder holds no finished run, the model file does not fit the model or holds a value that
    is not finite though the run did not diverge, or dataset or partition are not those of the run; FlatFedError for a
    missing device.
    """
    set_up(inputs.threads)  # as in training, TF32 included: losses are those that the run saw
    record = records.read_finished(run)
    description = record.description
    place = pick_device(inputs.device)
    data, dealt = load_data(description, inputs.dataset, inputs.partition)
    for key, found, path in (
        ("dataset", data.digest, inputs.dataset),
        ("partition", dealt.digest, inputs.partition),
    ):
        if (wanted := getattr(record, f"{key}_digest")) != found:
            raise DataError(
                f"{path}: not the {key} of {run} (digest {found[:12]}, but the run was made with {wanted[:12]})"
            )
    dtype = STATE_DTYPES[precision or description["precision"]]
    spec, about = description["model"], description["dataset"]
    shape = tuple(about["shape"])
    model = products.with_products(models.build(spec["name"], shape, about["classes"], spec["options"]), shape)
    model.to(place, dtype).eval().requires_grad_(False)
    layout = Layout.of(model)
    record.check_files(run, records.MODEL)
    row, digests = read_weights(run, record, model)
    resident = Resident.of(data, about, "none", place, dtype)
    return Trained(run, record, model, layout, row.to(place, dtype), resident, dealt, digests)


def read_weights(run: Path, record: RunRecord, model: nn.Module) -> tuple[Tensor, Digests]:
    """Return the flat row (parameters,) of the run's model file, on the CPU, and the digests of the run.

    Raises DataError where the file is absent or damaged, has other tensors than ``layout``, naming the first, or,
    though the run did not diverge, holds a value that is not finite.
    """
    path = run / records.MODEL
    try:
        content = path.read_bytes()
        found = load_tensors(content)
        model.load_state_dict(found)
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path}: cannot be read as a model ({error})") from error
    except RuntimeError as error:
        name = record.description["model"]["name"]
        said = " ".join(str(error).split())
        raise DataError(f"{path}: does not fit its run, of model {name!r} by run.json: {said}") from None
    for name, tensor in found.items():
        wrong = int((~tensor.isfinite()).sum())
        if wrong and record.diverged_at is None:
            raise DataError(
                f"{path}: {wrong} of {tensor.numel()} values of {name} are not finite, and yet the run has not "
                "diverged; train it again"
            )
    row = torch.cat([found[name].reshape(-1) for name, _ in model.named_parameters()])
    return row, Digests.of_run(record, hashlib.sha256(content).hexdigest())
