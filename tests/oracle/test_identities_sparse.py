"""What holds of DisPFL's masks, models and mixing whatever the data."""

from __future__ import annotations

import math

import pytest
import torch
from exact import RING, TOLERANCE, gap, run

from flatfed.algorithms._layout import Layout
from flatfed.algorithms.dispfl import DisPFL
from flatfed.errors import ConfigError

GRAPHS = {"ring": {}, "full": {}, "neighbours": {"neighbours": 2}, "clique": {"neighbours": 2}}


def sparse(folder, params: dict, **changes):
    return run(folder, "dispfl", params, **{**RING, **changes})


def layout(*shapes: tuple[int, ...]) -> Layout:
    return Layout(tuple(map(str, range(len(shapes)))), shapes)


@pytest.mark.parametrize("density", [0.2, 0.5, 0.8])
def test_densities_of_layers_are_erdos_renyi_kernel(density):
    """Kept weights go by sum(shape) / prod(shape) where that is under 1, and are the declared share altogether."""
    shapes = [(32, 3, 5, 5), (32,), (64, 32, 5, 5), (64,), (10, 64)]
    rows = layout(*shapes)
    kept = dict.fromkeys(range(len(shapes)), 1.0)
    parts = {part.start: place for place, part in enumerate(rows.slices().values())}
    found = DisPFL(density=density).sparse(rows)
    for part, count in found:
        kept[parts[part.start]] = count / (part.stop - part.start)
    assert kept[1] == kept[3] == 1, "biases are dense"
    raw = {place: sum(shapes[place]) / math.prod(shapes[place]) for place in (0, 2, 4)}
    scale = kept[2] / raw[2]
    for place in (0, 4):
        assert kept[place] == pytest.approx(min(1.0, scale * raw[place]), abs=2 / math.prod(shapes[place]) + 1e-3)
    total = sum(share * size for share, size in zip(kept.values(), rows.sizes, strict=True))
    assert density * sum(rows.sizes) - len(shapes) < total <= density * sum(rows.sizes)


def test_a_model_of_equal_layers_has_one_density():
    found = DisPFL(density=0.25).sparse(layout((8, 8), (8, 8), (8, 8)))
    assert [count for _, count in found] == [16, 16, 16]


@pytest.mark.parametrize("graph", GRAPHS)
def test_mixing_is_over_those_who_trained_the_weight(tmp_path, graph):
    """Nodes that agree on a value keep it, whatever their masks; a weight that no neighbour trained is zero."""
    run = sparse(tmp_path, {"density": 0.2}, topology={"graph": graph, **GRAPHS[graph]})
    run.advance()
    store, mask, shared = (run.state.store[key] for key in ("model", "mask", "shared"))
    mask, shared = mask.clone(), shared.clone()
    assert (mask != shared).any(dim=1).all()
    near = run.topology.mixing(run.round) > 0
    trained = torch.from_numpy(near).to(shared) @ shared > 0
    store.copy_(3.0 * shared)
    run.mix()
    assert gap(store, 3.0 * mask * trained) < TOLERANCE
    assert torch.equal(run.state.store["shared"], mask) and torch.equal(run.state.store["mask"], mask)


def test_a_density_below_the_dense_tensors_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"density 0\.001 leaves nothing for sparse layers: .* are 0\.\d+ of this"):
        sparse(tmp_path, {"density": 0.001})
