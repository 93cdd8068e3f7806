"""A run's model, and how its tensors become the rows that algorithms work on."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor

from flatfed import models
from flatfed.algorithms import Algorithm
from flatfed.engine import products, taps
from flatfed.engine.layout import Layout
from flatfed.engine.streams import torch_seed
from flatfed.models import pretrained


class Weights:
    """``model`` the module that executors call; ``layout`` of its rows; ``initial`` (size,) the first row.

    ``parameters`` is the number of the full model's, which files hold and communication counts; rows are shorter where
    taps are dead and ``algorithm`` treats all weights alike (see :mod:`flatfed.engine.taps`). ``pretrained_file``: the
    weights that the first row starts from, in place of drawn ones (see :mod:`flatfed.models.pretrained`).
    """

    def __init__(
        self,
        description: dict[str, Any],
        algorithm: Algorithm,
        device: torch.device,
        dtype: torch.dtype,
        pretrained_file: str | os.PathLike[str] | None = None,
    ):
        spec, shape = description["model"], tuple(description["dataset"]["shape"])
        self.model = models.build(spec["name"], shape, description["dataset"]["classes"], spec["options"])
        models.refuse_buffers(self.model)
        generator = torch.Generator().manual_seed(torch_seed(int(description["seed"]), "weights"))
        initial = models.initial_weights(self.model, generator)
        if pretrained_file is not None:
            initial = pretrained.load(self.model, initial, pretrained_file)
        self.parameters = len(initial)
        self.layout, self.taps = Layout.of(self.model), None
        if vars(type(algorithm)).get("alike"):
            self.taps = taps.find(self.model, shape, initial)
        if self.taps is not None:
            self.model, self.layout, initial = self.taps.model, self.taps.layout, self.taps.reduce(initial.to(dtype))
        self.model = products.of(self.model, shape).to(device, dtype).requires_grad_(False)
        self.initial = initial.to(device, dtype)

    def tensors(self, row: Tensor) -> dict[str, Tensor]:
        """Return name -> tensor of the full model whose row (size,) is ``row``."""
        return self.layout.views(row) if self.taps is None else self.taps.full.views(self.taps.expand(row))

    def row(self, tensors: dict[str, Tensor]) -> Tensor:
        """Return the row (size,) of a full model's ``tensors``, on the device."""
        layout = self.layout if self.taps is None else self.taps.full
        whole = torch.cat([tensors[name].reshape(-1) for name in layout.names]).to(self.initial)
        return whole if self.taps is None else self.taps.reduce(whole)
