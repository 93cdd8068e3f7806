"""What the benchmark measures us against does the same arithmetic: the same model after some rounds, in float64.

The yardsticks are written apart from flatfed, with nn.Module and torch.optim.SGD; they share the module, its initial
weights and here the batches.
"""

from __future__ import annotations

import pytest
import torch
from workloads import ALGORITHMS
from yardsticks import KINDS, YARDSTICKS

from flatfed.engine import batches
from harness import advanced, description, full_rows, simulation
from samples import sampled


@pytest.mark.parametrize("kind", sampled(KINDS, KINDS[:1]))
@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_same_model(tmp_path, name, kind):
    """Ragged clients, half of them active, a clip that acts, weight decay, a falling learning rate."""
    spec = description(name, ALGORITHMS[name])
    ours = simulation(tmp_path, spec, "sequential")
    schedule = batches.Schedule(spec["batch_size"], spec["local_epochs"])

    def order(client: int, round_: int) -> list[torch.Tensor]:
        dealt = batches.plan([client], ours.members, schedule, seed=spec["seed"], round_=round_, augmentation="none")
        parts = zip(dealt.index[0], dealt.weight[0], strict=True)
        return [torch.from_numpy(index[weight > 0]) for index, weight in parts]

    data = ours.data.images, ours.data.labels, ours.members
    theirs = YARDSTICKS[name](kind, ours.config, *data, torch.device("cpu"), order=order)
    initial = theirs.w.clone()
    for _ in range(3):
        clients = ours.sample().tolist()
        advanced(ours, 1)
        theirs.advance(clients)
    assert (full_rows(ours, ours.server["w"])[0] - theirs.w).abs().max() < 1e-10
    assert (theirs.w - initial).abs().max() > 1e-2
