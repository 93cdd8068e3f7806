"""FedRobust (Reisizadeh et al. 2020): an affine shift of each client's images against the model.

    min_w max_{a_i, b_i} mean_i E loss(w; (1 + a_i) x + b_i) - lambda_a ||a_i||^2 - lambda_b ||b_i||^2
    w <- w - eta grad_w;   (a_i, b_i) <- (a_i, b_i) + eta_2 grad_{a, b}      (simultaneously, at every local step)

FedSAM, the only paper with FedRobust, states neither eta_2 nor lambda nor the form of the map (a full matrix would have
nine million entries a client). Chosen here: a scale and a shift for each channel, or for each pixel and channel, of the
normalised images, and eta_2 = eta.
"""

from __future__ import annotations

from flatfed.algorithms._context import Context, Tensor, Vectors
from flatfed.algorithms._layout import FRONT
from flatfed.algorithms._parameters import Choice, Number
from flatfed.algorithms.fedavg import FedAvg


class FedRobust(FedAvg):
    affine = Choice("channel", ("channel", "diagonal"), "one scale and shift a channel, or one a pixel and channel")
    ascent = Number(1.0, "eta_2 / eta: rate of the shift's ascent; 0 is FedAvg", minimum=0)
    scale_penalty = Number(1.0, "lambda_a: weight of ||a||^2", minimum=0)
    shift_penalty = Number(1.0, "lambda_b: weight of ||b||^2", minimum=0)
    local = (FRONT,)
    whole_rows = True

    def front_size(self, image_shape: tuple[int, int, int]) -> int:
        channels, height, width = image_shape
        return 2 * channels * (1 if self.affine == "channel" else height * width)

    def transform(self, images: Tensor, front: Tensor) -> Tensor:
        shape = (images.shape[1], 1, 1) if self.affine == "channel" else images.shape[1:]
        scale, shift = front.chunk(2)
        return images + images * scale.view(shape) + shift.view(shape)

    def update_local(self, local: Tensor, g: Tensor, ctx: Context) -> Tensor:
        """Ascend with (a, b)."""
        penalties = self.scale_penalty, self.shift_penalty
        for part, slope, penalty in zip(local.chunk(2, dim=1), g.chunk(2, dim=1), penalties, strict=True):
            part.addcmul_(slope - 2 * penalty * part, ctx.lr, value=self.ascent)
        return local

    def finish(self, w: Tensor, ctx: Context) -> tuple[Vectors, Vectors]:
        """The server's model has no map."""
        w[:, ctx.layout.slices()[FRONT]] = 0
        return {}, {"w": w}
