"""The flat row of a model's parameters."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

from flatfed.errors import ConfigError, unknown

if TYPE_CHECKING:
    from torch import Tensor, nn

#: The parameter of an algorithm's ``transform``, behind those of the model.
FRONT = "algorithm_front.values"


@dataclass(frozen=True)
class Layout:
    """Names and shapes of a model's trained parameters, in the order of ``parameters()`` and of the flat row.

    ``extra`` coordinates at the end of the row belong to no tensor (:mod:`flatfed.engine.speed.taps`).
    ``channels_last``: the row stores a kernel (O, C, h, w) in the order (O, h, w, C).
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    extra: int = 0
    channels_last: bool = False

    @classmethod
    def of(cls, module: nn.Module) -> Layout:
        """Return the layout of ``module``; frozen parameters (``requires_grad = False``) are no coordinates."""
        trained = {name: tuple(value.shape) for name, value in module.named_parameters() if value.requires_grad}
        return cls(tuple(trained), tuple(trained.values()))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(map(math.prod, self.shapes))

    @property
    def tensor_size(self) -> int:
        return sum(self.sizes)

    @property
    def size(self) -> int:
        return self.tensor_size + self.extra

    def slices(self) -> dict[str, slice]:
        parts = zip(self.names, self.sizes, accumulate(self.sizes), strict=True)
        return {name: slice(end - size, end) for name, size, end in parts}

    def matching(self, patterns: Sequence[str]) -> list[str]:
        """Return the names that match one of ``patterns``, such as ``head.*``; models differ in their names.

        :raises ConfigError: no pattern matches a name.
        """
        names = [name for name in self.names if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
        if patterns and not names:
            raise ConfigError(unknown("parameter", patterns[0], self.names, "local of the algorithm"))
        return names

    def views(self, row: Tensor) -> dict[str, Tensor]:
        """Return name -> view of the flat ``row`` (..., parameters) in the tensor's shape (..., *shape).

        Without extra coordinates.
        """
        # Not slices: the gradient of each slice is a pass over all parameters.
        *parts, _ = row.split([*self.sizes, row.shape[-1] - self.tensor_size], dim=-1)
        return {n: self._view(p, s) for n, p, s in zip(self.names, parts, self.shapes, strict=True)}

    def _view(self, part: Tensor, shape: tuple[int, ...]) -> Tensor:
        rows = part.shape[:-1]
        if not self.channels_last or len(shape) != 4:
            return part.view((*rows, *shape))  # one argument: a scalar has no sizes
        outputs, channels, height, width = shape
        return part.view(*rows, outputs, height, width, channels).movedim(-1, -3)

    def flat(self, tensors: Tensor) -> Tensor:
        """Return one tensor of several rows (rows, *shape) as part of the rows (rows, size)."""
        stored = tensors.movedim(2, -1) if self.channels_last and tensors.dim() == 5 else tensors
        return stored.reshape(len(stored), -1)
