"""The perturbation of sharpness-aware minimisation, for any algorithm."""

from __future__ import annotations

from flatfed.algorithms._base import Algorithm
from flatfed.algorithms._context import Context, Gradient, Tensor
from flatfed.algorithms._parameters import Number
from flatfed.algorithms._rows import along


class SharpnessAware(Algorithm):
    """SAM (Foret et al. 2021): the gradient at w + rho g / ||g||; same batch, norm over all weights."""

    rho = Number(0.01, "radius of the perturbation; 0 takes the plain gradient (twice)", minimum=0)
    gradients_per_step = 2

    def perturbation(self, w: Tensor, gradient: Gradient, ctx: Context) -> Tensor:
        """Return e, without weight decay, clip and corrections."""
        return along(gradient(w), self.rho)
