"""Identities that hold to 1e-12 in float64, whatever the data.

The clip is active, weights decay, half of the clients take part, batches are ragged and clients of unequal size, unless
a test needs otherwise.
"""

from __future__ import annotations

import pytest
import torch

from flatfed import algorithms
from harness import SIZES, advanced, description, simulation, write_problem

TOLERANCE = 1e-12
EVERYBODY = {"sampling": {"scheme": "all"}}
HALF = {"sampling": {"scheme": "fixed", "fraction": 0.5}}
RING = {"topology": {"graph": "ring"}, **EVERYBODY}
FULL = {"topology": {"graph": "full"}, **EVERYBODY}
ONE_STEP = {"local_epochs": 1, "batch_size": max(SIZES)}
FIRST, RHO, DUAL = {"rounds": 1}, {"rho": 0.3}, {"rho": 0.3, "penalty": 0.2}
SERVER_STEP, ACTIVE = {**RHO, "direction": "server_step"}, {**RHO, "average": "active_clients"}
BERNOULLI = {"sampling": {"scheme": "bernoulli", "fraction": 0.5, "sampler": "keyed"}}

#: Two algorithms with parameters, the settings under which they are equal, and those under which they differ.
PAIRS = {
    "at w^t FedProx's term has no gradient, but a clip sees its linear half": (
        *(("fedprox", {"mu": 0.7}), ("fedavg", {})),
        *({**FIRST, **ONE_STEP, "clip_norm": None}, {**FIRST, **ONE_STEP, "clip_norm": 0.4}),
    ),
    "both averages of FedSpeed agree when everybody is active": (
        *(("fedspeed", RHO), ("fedspeed", ACTIVE), EVERYBODY, HALF),
    ),
    "FedSMOO begins as FedSpeed: with mu_i = 0 and s = 0 the perturbation is SAM's": (
        *(("fedsmoo", DUAL), ("fedspeed", DUAL), {**FIRST, **ONE_STEP}, FIRST),
    ),
    "FedLESAM begins as FedAvg": (("fedlesam", {"rho": 50.0}), ("fedavg", {}), FIRST, {"rounds": 3}),
    "FedLESAM-S begins as SCAFFOLD": (("fedlesam_s", {"rho": 50.0}), ("scaffold", {}), FIRST, {"rounds": 3}),
    "FedLESAM-D begins as FedDyn": (("fedlesam_d", {"rho": 50.0}), ("feddyn", {}), FIRST, {"rounds": 3}),
    "FedLESAM has one direction for all": (("fedlesam", SERVER_STEP), ("fedlesam", RHO), EVERYBODY, BERNOULLI),
    "D-PSGD that mixes first is FedAvg on the full graph": (
        *(("dpsgd", {"order": "official_code"}), ("fedavg", {}), FULL, RING),
    ),
    "momentum begins anew every round": (("dfedavgm", {}), ("dfedavg", {}), {**RING, **ONE_STEP}, RING),
    "two gossip steps on the full graph are one": (
        *(("dfedsam_mgs", {**RHO, "gossip_steps": 2}), ("dfedsam_mgs", {**RHO, "gossip_steps": 1}), FULL, RING),
    ),
}
def gap(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).abs().max())


def run(folder, name: str, params: dict | None = None, rounds: int = 4, executor: str = "stacked", **changes):
    """Return the run of algorithm ``name`` on the problem in ``folder`` after ``rounds`` rounds."""
    found = simulation(folder, description(name, params, **changes), executor)
    advanced(found, rounds)
    return found


def model(*arguments, **changes) -> torch.Tensor:
    return run(*arguments, **changes).server["w"]


@pytest.mark.parametrize("pair", PAIRS)
def test_equal_here_and_different_there(tmp_path, pair):
    one, other, equal, different = PAIRS[pair]
    for changes, bound in ((equal, lambda value: value < TOLERANCE), (different, lambda value: value > 1e-4)):
        assert bound(gap(model(tmp_path, *one, **changes), model(tmp_path, *other, **changes))), changes


def test_fedwmsam_without_its_additions_is_fedcm(tmp_path):
    """Without radius and adaptation, and with control variates that are set to zero after every round."""
    ours = run(tmp_path, "fedwmsam", {"alpha": 0.3, "rho": 0.0, "adaptation": 0.0}, 0)
    for _ in range(4):
        ours.advance()
        for variates in (ours.server["c"], ours.state.store["c"]):
            variates.zero_()
    assert gap(ours.server["w"], model(tmp_path, "fedcm", {"alpha": 0.3})) < TOLERANCE


@pytest.mark.parametrize(("name", "params"), [("fedcm", {}), ("mofedsam", RHO)])
def test_the_papers_scaling_is_averaging_where_eta_g_is_eta_times_k(tmp_path, name, params):
    """Qu et al., Alg. 2: equal clients and a constant rate; K = 2 ceil(8 / 3) = 6."""
    write_problem(tmp_path, [8] * 6)
    params, settings = {**params, "alpha": 0.3}, {"batch_size": 3, "learning_rate_decay": 1.0}
    averaged = model(tmp_path, name, params, **settings)
    for rate, equal in ((0.2 * 6, True), (1.0, False)):
        scaled = model(tmp_path, name, {**params, "scaling": "paper", "server_learning_rate": rate}, **settings)
        assert (gap(scaled, averaged) < TOLERANCE) == equal


@pytest.mark.parametrize("name", ["fedsam", "mofedsam", "fedgamma", "fedspeed", "fedsmoo", "dfedsam", "dfedsam_mgs"])
def test_sams_perturbation_has_length_rho_at_every_step(tmp_path, name):
    """Over all weights together, not tensor by tensor; whatever corrections, clip and decay."""
    sharp = run(tmp_path, name, RHO, 0, **(RING if algorithms.load(name).decentralised else {}))
    perturbation, seen = sharp.algorithm.perturbation, []
    sharp.algorithm.perturbation = lambda *arguments: (seen.append(perturbation(*arguments)), seen[-1])[1]
    sharp.advance()
    assert max(float(e.norm(dim=1).sub(0.3).abs().max()) for e in seen) < 1e-5
    assert max(float(part.norm()) for part in seen[0][0].split(sharp.layout.sizes)) < 0.3 - 1e-4
