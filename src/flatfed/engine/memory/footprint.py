"""What a model's gradient and evaluation take in memory, found on tensors without content: nothing is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.func import functional_call
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from flatfed.engine.executors import Executor, Stacked
from flatfed.engine.feed import blank_batch
from flatfed.engine.memory import sizes
from flatfed.engine.memory.sizes import Footprint, Sizes

if TYPE_CHECKING:
    from flatfed.engine.simulation import Simulation

ROWS, FEW, MANY = 2, 500, 1000  # rows, where several train at a time, and images of each, that are measured


class Live(TorchDispatchMode):
    """Counts the bytes of tensors that are alive while it is entered: ``peak``, and ``largest`` of a single one.

    Those in ``known`` are not counted, and neither are views.
    """

    def __init__(self, known: list[Tensor] | tuple[Tensor, ...]):
        super().__init__()
        self.peak = self.largest = 0
        self._known = {tensor.untyped_storage()._cdata for tensor in known}
        self._live: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self._live = {key: each for key, each in self._live.items() if not each[0].expired()}
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                if storage._cdata not in self._known and storage._cdata not in self._live:
                    self._live[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
                    self.largest = max(self.largest, storage.nbytes())
        self.peak = max(self.peak, sum(size for _, size in self._live.values()))
        return out


def measured(executor: Executor, shape: tuple[int, int, int], private: int) -> Footprint:
    """Return the footprint of the ``executor``'s model on images of ``shape`` (C, H, W), in float32.

    ``private`` coordinates of a client stand behind its row. What libraries take inside one operation is not seen.
    """
    rows = ROWS if isinstance(executor, Stacked) else 1
    meta = torch.device("meta")
    w = torch.empty(rows, executor.layout.size + private, device=meta)

    def gradient(images: int) -> int:
        batch = blank_batch(executor.model, rows, images, shape, w.dtype, meta)
        with Live((w, batch.images, batch.labels, batch.weights, *batch.masks)) as live:
            executor(w, batch)
        return live.peak

    def forward(images: int) -> int:
        batch = torch.empty(images, *shape, device=meta)
        with torch.no_grad(), Live((w, batch)) as live:
            functional_call(executor.model, executor.layout.views(w[0, : executor.layout.size]), (batch,))
        return live.peak

    item, more = w.itemsize, MANY - FEW
    few, image = gradient(FEW), (gradient(MANY) - gradient(FEW)) / (more * rows)
    return Footprint(
        row=executor.layout.size,
        step=round((few / rows - FEW * image) / item),
        image=round(image / item),
        forward=round((forward(MANY) - forward(FEW)) / more / item),
    )


def sizes_of(run: Simulation) -> Sizes:
    """Return the sizes of ``run`` as it goes on: with so many rows and images at a time."""
    model = measured(run.executor, tuple(run.description["dataset"]["shape"]), run.private)
    limits = [count for count in (run.executor.block, run.rows) if count is not None]
    return sizes.computed(
        run.description,
        run.algorithm,
        model,
        together=min(limits, default=None),
        evaluated=run.evaluate.batch_size,
        recorded=run.executor.recorded,
    )
