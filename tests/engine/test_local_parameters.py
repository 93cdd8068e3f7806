"""Parameters that stay on their client, against a plain loop in float64."""

import re

import pytest
import torch

from flatfed.algorithms.fedprox import FedProx
from flatfed.engine.executors import EXECUTORS
from harness import Reference, advanced, description, full_rows, simulation
from repository import ROOT

HEAD = "dense."


PAGE = (ROOT / "docs/add-an-algorithm.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(r"```python\n([^`]*class FedPer[^`]*)```", PAGE)
exec(EXAMPLE, example := {})
FedPer = example["FedPer"]


class FedPerProx(FedProx):
    local = (f"{HEAD}*",)


def by_hand(problem: Reference, run, rounds: int, mu: float = 0.0):
    """Return the server's model after ``rounds``, each client's head, and the bytes that were sent in one direction."""
    spec, w, sent = problem.spec, problem.w, 0
    head = torch.cat([torch.full((size,), name.startswith(HEAD)) for name, size in zip(*sizes(run), strict=True)])
    heads = {client: w[head] for client in range(problem.m)}
    for number in range(rounds):
        lr, models = spec["learning_rate"] * spec["learning_rate_decay"] ** number, []
        for client in run.sample(ahead=number).tolist():
            start = w.clone()
            start[head] = heads[client]
            x = start.clone()
            for batch in problem.batches(client, number):
                g = problem.gradient(x, batch) - mu * start
                g = g * min(1.0, spec["clip_norm"] / (float(g.norm()) + 1e-6))
                x = x - lr * (g + (spec["weight_decay"] + mu) * x)
            heads[client] = x[head]
            models.append(x)
            sent += 8 * int((~head).sum())
        w = torch.stack(models).mean(dim=0)
    return w, torch.stack(list(heads.values())), sent


def sizes(run):
    return run.layout.names, run.layout.sizes


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(("algorithm", "mu"), [(FedPer(), 0.0), (FedPerProx(mu=0.5), 0.5)])
def test_a_local_head_and_an_averaged_body(tmp_path, executor, algorithm, mu):
    """Clip and decay act on the head, too; a proximal term draws it to its own value at the start of the round."""
    spec = description("fedavg", sampling={"scheme": "fixed", "fraction": 0.5})
    problem = Reference(tmp_path, spec)
    run = simulation(tmp_path, spec, executor, algorithm=algorithm)
    w, heads, sent = by_hand(problem, run, 4, mu)
    advanced(run, 4)
    assert (full_rows(run, run.server["w"])[0] - w).abs().max() < 1e-12
    assert (run.state.store["local"] - heads).abs().max() < 1e-12
    assert len(heads.unique(dim=0)) > 3, "several clients trained"
    assert run.cost.counts["upload"] == run.cost.counts["download"] == sent


class Slow(FedPer):
    """The head moves by a tenth of the rate, without clip and decay."""

    def update_local(self, local, g, ctx):
        return local - 0.1 * ctx.lr * g


@pytest.mark.parametrize("executor", EXECUTORS)
def test_an_update_of_their_own(tmp_path, executor):
    spec = description("fedavg", local_epochs=1, batch_size=12, sampling={"scheme": "all"})
    problem = Reference(tmp_path, spec)
    run = simulation(tmp_path, spec, executor, algorithm=Slow())
    advanced(run, 1)
    head = torch.cat([torch.full((size,), name.startswith(HEAD)) for name, size in zip(*sizes(run), strict=True)])
    models, w = [], problem.w
    for client in range(problem.m):
        (batch,) = problem.batches(client, 0)
        g = problem.gradient(w, batch)
        clip = min(1.0, spec["clip_norm"] / (float(g[~head].norm()) + 1e-6))
        step = torch.where(head, 0.1 * g, clip * g + spec["weight_decay"] * w)
        models.append(w - spec["learning_rate"] * step)
    expected = torch.stack(models)
    assert (full_rows(run, run.server["w"])[0] - expected.mean(dim=0)).abs().max() < 1e-12
    assert (run.state.store["local"] - expected[:, head]).abs().max() < 1e-12
