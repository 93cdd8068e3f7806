"""What the benchmark measures us against does the same arithmetic: the same model after some rounds, in float64.

The yardsticks are written apart from flatfed, with nn.Module and torch.optim.SGD; they share the module, its initial
weights and here the batches.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from workloads import ALGORITHMS, WORKLOADS
from yardsticks import KINDS, YARDSTICKS

from flatfed.engine import batches
from flatfed.engine.sampling import active_clients
from harness import SIZES, description, simulation, write_problem
from samples import sampled

RESNET = {"name": "resnet18_gn", "options": WORKLOADS["W1"].options}  # its taps are mostly dead, so ours are cropped


def distance(folder: Path, name: str, kind: str, rounds: int = 3, **changes) -> tuple[float, float]:
    """Return the largest difference of both models after so many ``rounds``, and how far the model has come."""
    spec = description(name, ALGORITHMS[name], **changes)
    ours = simulation(folder, spec, "sequential")
    schedule = batches.Schedule(spec["batch_size"], spec["local_epochs"])

    def order(client: int, round_: int) -> list[torch.Tensor]:
        dealt = batches.plan([client], ours.members, schedule, seed=spec["seed"], round_=round_, augmentation="none")
        parts = zip(dealt.index[0], dealt.weight[0], strict=True)
        return [torch.from_numpy(index[weight > 0]) for index, weight in parts]

    images, labels = ours.data.images, ours.data.labels
    theirs = YARDSTICKS[name](kind, ours.config, images, labels, ours.members, torch.device("cpu"), order=order)
    initial = theirs.w.clone()
    for round_ in range(rounds):
        ours.advance()
        clients = active_clients(ours.config.sampling, ours.client_count, spec["seed"], round_)
        theirs.advance(clients.tolist())
    found = torch.cat([value.reshape(-1) for value in ours.weights.tensors(ours.server["w"][0]).values()])
    return float((found - theirs.w).abs().max()), float((theirs.w - initial).abs().max())


@pytest.mark.parametrize("kind", sampled(KINDS, KINDS[:1]))
@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_same_model(tmp_path, name, kind):
    """Ragged clients, half of them active, a clip that acts, weight decay, a falling learning rate."""
    difference, way = distance(tmp_path, name, kind)
    assert difference < 1e-10 < 1e-2 < way


def test_the_same_model_with_dead_taps(tmp_path):
    """The 7x7 stem on small images: ours carries most weights as one coordinate, a plain module as they are."""
    write_problem(tmp_path, SIZES[:2])
    changes = {"model": RESNET, "batch_size": 12, "local_epochs": 1, "sampling": {"scheme": "all"}}
    difference, way = distance(tmp_path, "fedavg", "resident", rounds=1, **changes)
    assert difference < 1e-10 < 1e-2 < way
