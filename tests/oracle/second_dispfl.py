"""DisPFL again, one node and one tensor after another, in the order of the official code.

Official code: rong-dai/DisPFL at commit e2f47d4: dispfl_api.py (the round, averages), client.py (the next mask),
my_model_trainer.py (densities, local steps). It tells two masks of a node apart:

- ``worn``: the mask that the node's weights were last trained under. It is shared with them, and averages are divided
  by it. It is replaced between averaging and training.
- ``own``: the node's newest mask, made at the end of its local training. No neighbour sees it before the node has
  trained under it: at first it is only what the node multiplies its next average by.

Shares with flatfed: the initial weights, who is active, the batches, the forward pass, the graph and its keyed draws.
Where the official code leaves a choice or FlatFed made another one (what is drawn from which stream, the gradient that
decides what regrows, tensors of one dimension), FlatFed's is taken: see the comments.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from second import Problem

from flatfed.data.streams import stream


def densities(shapes: list[tuple[int, ...]], density: float) -> list[float]:
    """Return the share of weights that each tensor keeps: Erdos-Renyi-Kernel, ``density`` of all weights together.

    A tensor's share is a common factor times sum(shape) / prod(shape). Where that exceeds one, the tensor with the
    largest is dense, and the factor is found anew for the others. Tensors of one dimension are dense: so they are in
    the official code too, unless the density is so low that the factor is below one.
    """
    size = [math.prod(shape) for shape in shapes]
    raw = [sum(shape) / math.prod(shape) for shape in shapes]
    dense = {k for k, shape in enumerate(shapes) if len(shape) == 1}
    while True:
        sparse = [k for k in range(len(shapes)) if k not in dense]
        if not sparse:
            return [1.0] * len(shapes)
        budget = density * sum(size) - sum(size[k] for k in dense)
        factor = budget / sum(raw[k] * size[k] for k in sparse)
        largest = max(raw[k] for k in sparse)
        if factor * largest <= 1:
            return [1.0 if k in dense else factor * raw[k] for k in range(len(shapes))]
        dense |= {k for k in sparse if raw[k] == largest}


class SparsePeers(Problem):
    """DisPFL: node i has weights ``x_i``, the mask ``worn`` they were trained under, and its newest mask ``own``.

    ``shapes`` of the tensors in the order of the flat vector; masks are vectors of zeros and ones like the weights.
    """

    def __init__(self, folder, spec):
        super().__init__(folder, spec)
        self.shapes = [tuple(p.shape) for p in self.model.parameters()]

    def run(self, name: str, p: dict, rounds: int) -> torch.Tensor:
        """Run ``rounds`` rounds; return the plain mean of the nodes' weights, zeros included."""
        graph, self.own = self.topology(), self.first_masks(p)
        self.worn = {i: mask.clone() for i, mask in self.own.items()}
        self.x_i = {i: self.w * self.own[i] for i in range(self.m)}
        for t in range(rounds):
            matrix = graph.mixing(t)
            self.average({i: [j for j in range(self.m) if matrix[i, j] > 0] for i in range(self.m)})
            for i in self.active(t):
                self.x_i[i], gradient = self.train(i, t, self.rates[t])
                self.own[i] = self.next_mask(p, i, t, rounds, gradient)
        self.w = sum(self.x_i.values()) / self.m
        return self.w

    def average(self, near: dict[int, list[int]]) -> None:
        """All nodes at once: average what the nodes ``near`` them (themselves included) trained; wear the newest mask.

        Coordinate by coordinate over those who trained it; zero where nobody did, or where the newest mask is zero.
        """
        shared, shared_masks = dict(self.x_i), dict(self.worn)
        for i in range(self.m):
            total = sum(shared[j] for j in near[i])
            count = sum(shared_masks[j] for j in near[i])
            mean = torch.zeros_like(total)
            mean[count > 0] = total[count > 0] / count[count > 0]
            self.x_i[i] = self.own[i] * mean
            self.worn[i] = self.own[i].clone()

    def train(self, i: int, t: int, eta: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Return node i's weights after its local steps, and the gradient of its last step.

        The clip is by the norm of the whole gradient, also of what the mask leaves out.
        """
        x = self.x_i[i]
        for index in self.batches(i, t):
            g = self.gradient(x, index)
            x = (x - eta * (self.clipped(g) + self.spec["weight_decay"] * x)) * self.worn[i]
        return x, g

    def next_mask(self, p: dict, i: int, t: int, rounds: int, gradient: torch.Tensor) -> torch.Tensor:
        """Return the mask that node i multiplies its next average by; its weights stay as they were trained.

        In every tensor the smallest weights go, a share that falls from ``anneal`` to 0 along a cosine, rounded up; as
        many come among all that are out, also those that just went. A dense tensor so gets back all that it lost.
        The official code takes the gradient of one more batch at the trained weights, FlatFed that of the last step.
        Of equal weights or gradients those with the lower index.
        """
        share = p["anneal"] / 2 * (1 + math.cos(math.pi * t / rounds))
        mask = self.own[i].clone()
        for layer, (first, last) in enumerate(self.sparse):
            x, g, part = self.x_i[i][first:last].abs(), gradient[first:last].abs(), mask[first:last]
            moved = math.ceil(share * int(part.sum()))
            kept = [j for j in range(last - first) if part[j] == 1]
            for j in sorted(kept, key=lambda j: float(x[j]))[:moved]:
                part[j] = 0
            score = g if p["regrow"] == "gradient" else self.uniform(i, t, len(self.sparse) + layer, last - first)
            out = [j for j in range(last - first) if part[j] == 0]
            for j in sorted(out, key=lambda j: -float(score[j]))[:moved]:
                part[j] = 1
        return mask

    def first_masks(self, p: dict) -> dict[int, torch.Tensor]:
        """Return every node's first mask, and set ``sparse``: where the tensors that are not dense begin and end.

        A tensor keeps the places of the smallest of its draws, as many as its density allows, rounded down. Where all
        nodes have one mask, the draw of a place is the smallest of the nodes' draws.
        """
        self.sparse, counts, end = [], [], 0
        for shape, share in zip(self.shapes, densities(self.shapes, p["density"]), strict=True):
            first, end = end, end + math.prod(shape)
            if share < 1:
                self.sparse.append((first, end))
                counts.append(int(share * (end - first)))
        masks = {i: torch.ones_like(self.w) for i in range(self.m)}
        for layer, ((first, last), count) in enumerate(zip(self.sparse, counts, strict=True)):
            draws = [self.uniform(i, 0, layer, last - first) for i in range(self.m)]
            if p["masks"] == "same":
                draws = [np.minimum.reduce(draws)] * self.m
            for i in range(self.m):
                masks[i][first:last] = 0
                for j in sorted(range(last - first), key=lambda j: draws[i][j])[:count]:
                    masks[i][first + j] = 1
        return masks

    def uniform(self, i: int, t: int, draw: int, size: int) -> np.ndarray:
        """Node i's draws number ``draw`` of round t, in [0, 1)."""
        return stream(self.spec["seed"], "algorithm", t, i, draw).random((size,))
