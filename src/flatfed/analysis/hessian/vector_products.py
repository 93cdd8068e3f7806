"""Hessian-vector products of a mean loss, in micro-batches, with several vectors per graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from flatfed.engine.job import memory
from flatfed.errors import FlatFedError

Loss = Callable[[Tensor, Tensor], Tensor]  # (outputs, targets) -> the mean over the batch, a 0-d tensor
Batch = tuple[Tensor, Tensor]  # inputs and targets of a micro-batch


REMEDIES = (
    "What helps: nothing else on the device, one with more memory, --device cpu, or a smaller --micro-batch, --block "
    "or --top (the host's memory holds 2 top + 1, at least 20, float64 vectors of the model's size)"
)


class HessianProducts:
    """H v for the Hessian H of the mean of ``loss`` over all ``batches``, at the weights of ``model``.

    A ``block`` of vectors takes one pass over ``batches`` (inputs, targets) and shares their graphs: a product costs
    about two gradients, not three.

    With ``scale`` (parameters,), the products are of S H S, S = diag(scale). ``done`` counts products.
    """

    def __init__(
        self, model: nn.Module, loss: Loss, batches: Iterable[Batch], block: int, *, scale: Tensor | None = None
    ):
        self.model, self.loss, self.batches, self.block, self.scale = model, loss, batches, block, scale
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.sizes = [parameter.numel() for parameter in self.parameters]
        self.size, self.done = sum(self.sizes), 0

    def __call__(self, vectors: Tensor) -> Tensor:
        """Return H v (n, parameters) of the rows of ``vectors`` (n, parameters).

        :raises FlatFedError: a product is not finite.
        """
        self.done += len(vectors)
        scaled = vectors if self.scale is None else vectors * self.scale
        products = torch.cat([self._graphs(part) for part in scaled.split(self.block)])
        if self.scale is not None:
            products *= self.scale
        if not products.isfinite().all():
            raise FlatFedError(
                "a Hessian-vector product is not finite: the loss is too steep for this precision at these weights"
            )
        return products

    def _graphs(self, vectors: Tensor) -> Tensor:
        """Return H v of ``vectors`` on shared graphs."""
        # Freed memory stays reserved: without this, before and after, vectors and graphs would each keep some.
        memory.trim_memory()
        total, count = torch.zeros_like(vectors), 0
        for inputs, targets in self.batches:
            loss = self.loss(self.model(inputs), targets)
            gradients = torch.autograd.grad(loss, self.parameters, create_graph=True, materialize_grads=True)
            # If the loss is linear in a parameter, its gradient has no graph and its row of H is zero.
            curved = [i for i, gradient in enumerate(gradients) if gradient.requires_grad]
            for number, vector in enumerate(vectors if curved else ()):
                parts = [part.view_as(p) for part, p in zip(vector.split(self.sizes), self.parameters, strict=True)]
                products = torch.autograd.grad(
                    [gradients[i] for i in curved],
                    self.parameters,
                    [parts[i] for i in curved],
                    retain_graph=number + 1 < len(vectors),
                    materialize_grads=True,
                )
                for part, product in zip(total[number].split(self.sizes), products, strict=True):
                    part.add_(product.reshape(-1), alpha=len(inputs))
            count += len(inputs)
        memory.trim_memory()
        return total.div_(count)
