"""FedSWA (Liu et al. 2025): the learning rate falls within a round, and the server steps beyond the clients' mean.

    client: eta_k = eta (1 - (1 - rho) k / K);   w <- w - eta_k g   (local step k = 0, 1, ..., K - 1)
    server: w <- w + alpha mean_S (w_i - w^t)

eta is the learning rate of the round and K the client's number of local steps. rho = alpha = 1 is FedAvg. The
first public code (FedSWA@298c917) is this rule; f725be9 has rho = 0, alpha = 1 and twice the learning rate of its other
algorithms.
"""

from __future__ import annotations

from flatfed.algorithms._context import Context, Tensor
from flatfed.algorithms._parameters import Number
from flatfed.algorithms.fedavg import FedAvg


class FedSWA(FedAvg):
    server_learning_rate = Number(1.5, "alpha: share of the mean update that the server takes", exclusive_minimum=0)
    last_rate = Number(0.1, "rho: learning rate at the end of a round, in shares of eta", minimum=0, maximum=1)
    counts_steps = True
    whole_rows = True

    def update(self, w: Tensor, d: Tensor, ctx: Context) -> Tensor:
        share = 1 - (1 - self.last_rate) * ctx.step / ctx.steps
        return w.addcmul_(d, ctx.lr * share, value=-1)
