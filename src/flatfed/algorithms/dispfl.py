"""DisPFL (Dai et al. 2022): every node trains a sparse model with a moving mask.

    x_i <- m_i * sum_{j in N_i + i} x_j / sum_{j in N_i + i} s_j       (elementwise; 0 if all s_j are 0);   s_i <- m_i
    K local SGD steps, the weights masked after every one
    in every sparse layer of m_i: prune the ceil(r_t nnz) smallest |x_i|, regrow as many, x_i unchanged;
    r_t = (anneal / 2)(1 + cos(pi t / T))

A node trains under mask s_i; its new mask m_i acts in its next mixing and is never sent. As in the official code
(dispfl_api.py, client.py), neighbours receive the trained weights and divide by the sum of the old masks: a pruned
weight counts once more, a regrown one starts as the mean of the nodes that trained it, or at zero.

Layers have Erdos-Renyi-kernel densities, proportional to sum(shape) / prod(shape), capped at 1; one-dimensional tensors
are dense. ``regrow: gradient`` uses the largest |gradient| of the round's last step (the official code: of one more
batch at the trained weights). DFedSAM does not define its "global" accuracy; here it is that of the mean of all nodes'
models after local training. A link carries ``density`` of a model, without positions, as in the official code.
"""

from __future__ import annotations

import math
from typing import Any

from flatfed.algorithms._base import Algorithm
from flatfed.algorithms._context import Context, Mixing, Tensor, Vectors
from flatfed.algorithms._layout import Layout
from flatfed.algorithms._parameters import Choice, Number
from flatfed.algorithms._rows import BLOCK
from flatfed.errors import ConfigError


class DisPFL(Algorithm):
    density = Number(
        0.5, "share of the weights that a node has; 1 is mixing, then local SGD", exclusive_minimum=0, maximum=1
    )
    anneal = Number(
        0.5, "share of a layer's weights replaced after the first round, falling to 0", minimum=0, maximum=1
    )
    regrow = Choice("random", ("random", "gradient"), "where weights regrow: anywhere, or at the largest gradients")
    masks = Choice("different", ("different", "same"), "first masks: every node's own, or one for all")
    decentralised = True
    mix_first = True
    client_state = ("mask", "shared")
    scratch = ("gradient",)

    def __init__(self, **values: Any):
        super().__init__(**values)
        self.communication = (self.density, self.density)

    def begin(self, models: Tensor, ctx: Context) -> Vectors:
        mask = ctx.client["mask"].fill_(1)
        for layer, (part, kept) in enumerate(self.sparse(ctx.layout)):
            draws = ctx.uniform(layer, (part.stop - part.start,))
            if self.masks == "same":
                draws = draws.amin(dim=0, keepdim=True).expand_as(draws)  # independent of the nodes' order
            dropped = _smallest(-draws, draws.shape[1] - kept)
            mask[:, part].scatter_(1, dropped.to(mask.device), 0)
        return {"model": models.mul_(mask), "mask": mask, "shared": mask}

    def mix(self, models: Tensor, mixing: Mixing, ctx: Context) -> Vectors:
        near = (mixing(0) > 0).to(models)
        parts = (rows.split(BLOCK, dim=1) for rows in (models, ctx.client["mask"], ctx.client["shared"]))
        for columns, mask, shared in zip(*parts, strict=True):
            columns.copy_(mask * (near @ columns) / (near @ shared).clamp_(min=1))
            shared.copy_(mask)
        return {"model": models, "shared": ctx.client["shared"]}

    def correct(self, g: Tensor, w: Tensor, ctx: Context) -> Tensor:
        """Store the gradient for regrowing."""
        ctx.scratch["gradient"].copy_(g)
        return g

    def update(self, w: Tensor, d: Tensor, ctx: Context) -> Tensor:
        return super().update(w, d, ctx).mul_(ctx.client["mask"])

    def finish(self, w: Tensor, ctx: Context) -> tuple[Vectors, Vectors]:
        """Prune and regrow every sparse layer of the mask; the weights stay."""
        share = self.anneal / 2 * (1 + math.cos(math.pi * ctx.round / ctx.rounds))
        layers = self.sparse(ctx.layout)
        for layer, (part, kept) in enumerate(layers):
            mask, moved = ctx.client["mask"][:, part], math.ceil(share * kept)
            size = w[:, part].abs().masked_fill_(mask == 0, math.inf)
            mask.scatter_(1, _smallest(size, moved), 0)
            if self.regrow == "random":
                score = ctx.uniform(len(layers) + layer, (part.stop - part.start,))
            else:
                score = ctx.scratch["gradient"][:, part].abs()
            mask.scatter_(1, _smallest(-score.masked_fill(mask > 0, -1), moved), 1)
        return {"mask": ctx.client["mask"]}, {}

    def sparse(self, layout: Layout) -> list[tuple[slice, int]]:
        """Return (slice of the row, number of weights kept) of every sparse layer.

        :raises ConfigError: the dense tensors use up the density.
        """
        raw = [sum(shape) / math.prod(shape) if len(shape) > 1 else math.inf for shape in layout.shapes]
        parts, sizes = list(layout.slices().values()), layout.sizes
        vectors = sum(size for size, shape in zip(sizes, layout.shapes, strict=True) if len(shape) == 1) / sum(sizes)
        if self.density <= vectors:
            raise ConfigError(
                f"algorithm DisPFL: density {self.density} leaves nothing for sparse layers: tensors of one dimension, "
                f"which are dense, are {vectors:.3f} of this model"
            )
        dense = {layer for layer, value in enumerate(raw) if value == math.inf}
        while True:
            sparse = [layer for layer in range(len(raw)) if layer not in dense]
            budget = self.density * sum(sizes) - sum(sizes[layer] for layer in dense)
            scale = budget / sum(raw[layer] * sizes[layer] for layer in sparse) if sparse else 0.0
            full = {layer for layer in sparse if scale * raw[layer] >= 1}
            if not full:
                break
            dense |= full
        return [(parts[layer], int(scale * raw[layer] * sizes[layer])) for layer in sparse]


def _smallest(values: Tensor, count: int) -> Tensor:
    """Return the positions (rows, count) of each row's smallest ``values``; the first of equal ones (zero weights)."""
    return values.argsort(dim=1, stable=True)[:, :count]
