"""My method: SAM's perturbation on the clients, momentum on the server.

    client: e = rho g(w) / ||g(w)||;   w <- w - eta g(w + e)
    server: v <- beta v + mean_S (w_i - w^t);   w <- w + v
"""

from flatfed.algorithms import Algorithm, Number
from flatfed.algorithms._sam import SharpnessAware


class MyMethod(SharpnessAware, Algorithm):
    """Local steps as FedSAM, heavy-ball steps at the server."""

    rho = Number(0.05, "radius of the perturbation; 0 takes the plain gradient", minimum=0)
    beta = Number(0.5, "momentum of the server", minimum=0, exclusive_maximum=1)
    server_state = ("v",)  # zero in the first round

    def aggregate(self, server, uploads, ctx):
        """Step along the momentum of the mean updates."""
        v = self.beta * server["v"] + uploads["w"].mean(dim=0, keepdim=True) - server["w"]
        return {"w": server["w"] + v, "v": v}
