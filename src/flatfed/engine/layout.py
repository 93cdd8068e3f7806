"""Where each tensor of a model lies in its flat row of parameters."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn


@dataclass(frozen=True)
class Layout:
    """Names, shapes and sizes of a model's parameters, in the order of the flat row (that of ``parameters()``).

    ``extra`` coordinates at the end of the row belong to no tensor (see :mod:`flatfed.engine.speed.taps`).
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]
    extra: int = 0

    @classmethod
    def of(cls, module: nn.Module) -> Layout:
        """Return the layout of ``module``."""
        named = list(module.named_parameters())
        return cls(
            tuple(name for name, _ in named),
            tuple(tuple(p.shape) for _, p in named),
            tuple(p.numel() for _, p in named),
        )

    @property
    def tensors(self) -> int:
        """Number of the tensors' coordinates."""
        return sum(self.sizes)

    @property
    def size(self) -> int:
        """Length of a row: the number of parameters, and the extra coordinates."""
        return self.tensors + self.extra

    def slices(self) -> dict[str, slice]:
        """Return name -> slice of the flat row."""
        ends, end = {}, 0
        for name, size in zip(self.names, self.sizes, strict=True):
            ends[name] = slice(end, end + size)
            end += size
        return ends

    def views(self, row: Tensor) -> dict[str, Tensor]:
        """Return name -> view of the flat ``row`` (parameters,), shaped as the model's tensor.

        What ``row`` has beyond the model's tensors is left out. One split, no slices: the gradient of a slice is a
        pass over all parameters more.
        """
        *parts, _ = row.split([*self.sizes, len(row) - self.tensors])
        return {n: p.view(s) for n, p, s in zip(self.names, parts, self.shapes, strict=True)}
