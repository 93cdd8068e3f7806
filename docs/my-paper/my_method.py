"""My method: SAM's perturbation and momentum on the clients, momentum on the server.

    client: e = rho g(w) / ||g(w)||;   u <- decay u + g(w + e), zero at first;   w <- w - lr u
    server: v <- beta v + mean_S (w_i - w^t);   w <- w + v
"""

from flatfed.algorithms import Algorithm, Number
from flatfed.algorithms._sam import SharpnessAware


class MyMethod(SharpnessAware, Algorithm):
    """FedSAM with heavy-ball steps at the clients and at the server."""

    rho = Number(0.05, "radius of the perturbation; 0 takes the plain gradient", minimum=0)
    decay = Number(0.1, "momentum of the local steps", minimum=0, exclusive_maximum=1)
    beta = Number(0.5, "momentum of the server", minimum=0, exclusive_maximum=1)
    scratch = ("u",)  # zero at the start of a client's round
    server_state = ("v",)  # zero in the first round
    own_momentum = True  # FlatFed warns where a protocol adds another one

    def update(self, w, d, ctx):
        """Step along the momentum of d, the clipped gradient plus weight decay."""
        return w - ctx.lr * ctx.scratch["u"].mul_(self.decay).add_(d)

    def aggregate(self, server, uploads, ctx):
        """Step along the momentum of the mean updates."""
        v = self.beta * server["v"] + uploads["w"].mean(dim=0, keepdim=True) - server["w"]
        return {"w": server["w"] + v, "v": v}
