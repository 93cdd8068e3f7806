"""The code published with FedWMSAM (commit a922a1d)."""

from __future__ import annotations

from flatfed.algorithms._context import Context, Tensor
from flatfed.algorithms.as_published.unpacking import by_tensor_number
from flatfed.algorithms.fedwmsam import FedWMSAM


class Downhill(FedWMSAM):
    """Perturbs against delta, and indexes delta by the tensor's number."""

    radius = 0.0  # depends on the model

    def scaled(self, delta: Tensor, ctx: Context) -> Tensor:
        return -by_tensor_number(delta, ctx.layout, self.rho)
