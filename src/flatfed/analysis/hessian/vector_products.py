"""Products of the Hessian of a mean loss with vectors, in micro-batches, several vectors to a graph."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from flatfed.engine.memory import available, shortage
from flatfed.errors import FlatFedError, Shortage

Loss = Callable[[Tensor, Tensor], Tensor]  # (outputs, targets) -> the mean over the batch, a 0-d tensor
Batch = tuple[Tensor, Tensor]  # inputs and targets of a micro-batch


@dataclass
class Limits:
    """At most how many ``images`` are on a graph, and ``vectors`` on that graph, of all products that share the limits.

    None: as many as there are. Limits only ever become lower, where memory runs out.
    """

    images: int | None = None
    vectors: int | None = None

    def halve(self, images: int, vectors: int, device: torch.device, more: str) -> None:
        """Halve ``images``, or ``vectors`` where that is one, and say so; ``more``: what was asked for, in words.

        Raises Shortage where both are one.
        """
        shortage.release()
        where = f"Hessian: not enough memory on {shortage.name_of(device)}"
        if images > 1:
            self.images = -(-images // 2)
            now = f"{self.images} images share a graph now, not {images}"
        elif vectors > 1:
            self.vectors = -(-vectors // 2)
            now = f"{self.vectors} vectors share a graph now, not {vectors}"
        else:
            raise Shortage(f"{where} for one image and one vector{more}. {remedies(device)}")
        print(f"{where}{more}; {now}: the same numbers up to rounding", file=sys.stderr)


@dataclass(frozen=True)
class Limited:
    """``batches``, as often as they are gone through, cut to as many images as ``limits`` allow."""

    batches: Iterable[Batch]
    limits: Limits

    def __iter__(self) -> Iterator[Batch]:
        for inputs, targets in self.batches:
            most = self.limits.images or len(inputs)
            yield from zip(inputs.split(most), targets.split(most), strict=True)


def remedies(device: torch.device) -> str:
    """Return what helps where memory is short, by the options of ``flatfed hessian``."""
    other = "--device cpu, " if device.type == "cuda" else ""
    return (
        f"What helps: nothing else on the device, one with more memory, {other}or a smaller --micro-batch, --block or "
        "--top (there are 2 top + 4 block vectors of the model's size)"
    )


class Products:
    """H v for the Hessian H of the mean of ``loss`` over all of ``batches``, at the weights that ``model`` has.

    ``batches`` is gone through once for every ``block`` vectors: (inputs, targets) of micro-batches, which bound the
    memory. The graph of a micro-batch's gradient is made once and serves all vectors of the block: a product by itself
    costs about three gradients, on a kept graph about two. Where memory runs out, ``limits`` become lower.

    With ``scale`` (parameters,) the products are of S H S, S = diag(scale). ``parts``: the same images in disjoint
    parts of one size, give or take an image, each in micro-batches, for :meth:`with_forms`; none: all are one part.
    ``done`` counts products.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        batches: Iterable[Batch],
        block: int,
        *,
        scale: Tensor | None = None,
        parts: Sequence[Iterable[Batch]] = (),
        limits: Limits | None = None,
    ):
        self.model, self.loss, self.block, self.scale = model, loss, block, scale
        self.limits = limits or Limits()
        self.batches = Limited(batches, self.limits)
        self.parts = [Limited(part, self.limits) for part in parts] or [self.batches]
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.sizes = [parameter.numel() for parameter in self.parameters]
        self.size, self.done = sum(self.sizes), 0

    def __call__(self, vectors: Tensor) -> Tensor:
        """Return H v of every row of ``vectors`` (n, parameters), likewise.

        Raises FlatFedError where a product is not finite, Shortage where memory does not last for one image.
        """
        self.done += len(vectors)
        return self._mean(self.batches, vectors)[0]

    def with_forms(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Return H v of every row of ``vectors`` (n, parameters), and V H_g V' (parts, n, n) of every part's Hessian.

        The second in float64. Costs what :meth:`__call__` does, but for smaller micro-batches, and raises the same.
        """
        self.done += len(vectors)
        total, forms, images = torch.zeros_like(vectors), [], 0
        for part in self.parts:
            found, count = self._mean(part, vectors)
            forms.append((vectors @ found.T).double())
            total.add_(found, alpha=count)
            images += count
        return total.div_(images), torch.stack(forms)

    def _mean(self, batches: Limited, vectors: Tensor) -> tuple[Tensor, int]:
        """Return the products (n, parameters) with the Hessian of the mean over ``batches``, and their images.

        A block at a time, with fewer images on a graph, and then fewer vectors, for as long as memory runs out.
        """
        scaled = vectors if self.scale is None else vectors * self.scale
        found, start, images = torch.empty_like(vectors), 0, 0

        def block() -> Tensor:
            return scaled[start : start + min(self.block, self.limits.vectors or self.block)]

        while start < len(vectors):
            products, images = shortage.retried(
                lambda: self._graphs(batches, block()),
                lambda lacking: self.limits.halve(self._images, len(block()), vectors.device, lacking),
            )
            found[start : start + len(products)] = products
            start += len(products)
        if self.scale is not None:
            found *= self.scale
        if not found.isfinite().all():
            raise FlatFedError(
                "a Hessian-vector product is not finite: the loss is too steep for this precision at these weights"
            )
        return found, images

    def _graphs(self, batches: Limited, vectors: Tensor) -> tuple[Tensor, int]:
        """Return H v of ``vectors``, all on one graph a micro-batch, and how many images there are."""
        # Before and after: memory that was freed stays reserved, so that vectors and graphs would each hold some.
        available.trim_memory()
        self._images = 1  # of the graph at hand; before the first graph, fewer images would take no less memory
        total, count = torch.zeros_like(vectors), 0
        for inputs, targets in batches:
            self._images = len(inputs)
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
        available.trim_memory()
        return total.div_(count), count
