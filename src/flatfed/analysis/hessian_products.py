"""Products of the Hessian of a mean loss with vectors, in micro-batches, several vectors to a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from flatfed.engine import memory
from flatfed.errors import FlatFedError

Loss = Callable[[Tensor, Tensor], Tensor]  # (outputs, targets) -> the mean over the batch, a 0-d tensor


class Products:
    """H v for the Hessian H of the mean of ``loss`` over all of ``batches``, at the weights that ``model`` has.

    ``batches`` is gone through once for every ``block`` vectors: (inputs, targets) of micro-batches, which bound the
    memory. The graph of a micro-batch's gradient is made once and serves all vectors of the block: a product by itself
    costs about three gradients, on a kept graph about two. ``done`` counts products.
    """

    def __init__(self, model: nn.Module, loss: Loss, batches: Iterable[tuple[Tensor, Tensor]], block: int):
        self.model, self.loss, self.batches, self.block = model, loss, batches, block
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.sizes = [parameter.numel() for parameter in self.parameters]
        self.size, self.done = sum(self.sizes), 0

    def __call__(self, vectors: Tensor) -> Tensor:
        """Return H v of every row of ``vectors`` (n, parameters), likewise.

        Raises FlatFedError where a product is not finite.
        """
        found = torch.cat([self._block(part) for part in vectors.split(self.block)])
        self.done += len(vectors)
        if not found.isfinite().all():
            raise FlatFedError(
                "a Hessian-vector product is not finite: the loss is too steep for this precision at these weights"
            )
        return found

    def _block(self, vectors: Tensor) -> Tensor:
        """Return H v of a block of vectors, all on one graph a micro-batch."""
        memory.give_back()  # else what others freed lies beside the graphs, and what graphs freed beside the vectors
        total, count = torch.zeros_like(vectors), 0
        for inputs, targets in self.batches:
            mean = self.loss(self.model(inputs), targets)
            gradients = torch.autograd.grad(mean, self.parameters, create_graph=True, materialize_grads=True)
            # A parameter that the loss is linear in has a gradient without a graph: its row of H is zero.
            bent = [i for i, gradient in enumerate(gradients) if gradient.requires_grad]
            for number, vector in enumerate(vectors if bent else ()):
                parts = [part.view_as(p) for part, p in zip(vector.split(self.sizes), self.parameters, strict=True)]
                products = torch.autograd.grad(
                    [gradients[i] for i in bent],
                    self.parameters,
                    [parts[i] for i in bent],
                    retain_graph=number + 1 < len(vectors),
                    materialize_grads=True,
                )
                place = 0
                for product, size in zip(products, self.sizes, strict=True):
                    total[number, place : place + size].add_(product.reshape(-1), alpha=len(inputs))
                    place += size
            count += len(inputs)
        memory.give_back()
        return total.div_(count)
