"""What holds of DisPFL's masks, models and mixing whatever the data."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from exact import EXECUTORS, HALF, RING, TOLERANCE, gap, run

from flatfed.algorithms._layout import Layout
from flatfed.algorithms.dispfl import DisPFL
from flatfed.engine.sampling import active_clients
from flatfed.errors import ConfigError
from harness import SIZES

GRAPHS = {"ring": {}, "full": {}, "neighbours": {"neighbours": 2}, "clique": {"neighbours": 2}}
T = 4  # rounds of the runs below


def sparse(folder, params: dict | None = None, executor: str = "stacked", **changes):
    return run(folder, "dispfl", params, executor=executor, **{**RING, **changes})


def masks(run) -> torch.Tensor:
    return run.state.store["mask"].clone()


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


@pytest.mark.parametrize(("kind", "equal"), [("different", False), ("same", True)])
def test_first_masks_are_random_and_every_nodes_own_or_one_for_all(tmp_path, kind, equal):
    run = sparse(tmp_path, {"masks": kind})
    mask, model = masks(run), run.state.store["model"]
    assert set(mask.unique().tolist()) == {0.0, 1.0}
    assert bool((mask == mask[:1]).all()) == equal
    for part, kept in run.algorithm.sparse(run.layout):
        assert (mask[:, part].sum(dim=1) == kept).all()
    assert torch.equal(model, mask * run.weights.initial)
    assert torch.equal(run.state.store["shared"], mask)
    other = sparse(tmp_path, {"masks": kind}, seed=4)
    assert (masks(other) != mask).any()


@EXECUTORS
@pytest.mark.parametrize("regrow", ["random", "gradient"])
def test_as_many_weights_grow_as_are_pruned(tmp_path, executor, regrow):
    """In every layer of every node, in every round; the model stays as trained under the mask before."""
    run = sparse(tmp_path, {"regrow": regrow}, executor)
    first, moved = masks(run), 0
    for _ in range(T):
        before = masks(run)
        run.advance()
        mask = masks(run)
        for part, kept in run.algorithm.sparse(run.layout):
            assert (mask[:, part].sum(dim=1) == kept).all()
        model = run.state.store["model"]
        assert torch.equal(run.state.store["shared"], before)
        assert not model[before == 0].any()
        assert model[before > mask].any(), "what is pruned is shared once more"
        moved += int((mask != before).sum())
    dense = torch.ones(run.layout.size, dtype=torch.bool)
    for part, _ in run.algorithm.sparse(run.layout):
        dense[part] = False
    assert dense.any() and (mask[:, dense] == 1).all()
    assert moved > 100 and (mask != first).any(dim=1).all()


def test_fewer_weights_move_from_round_to_round(tmp_path):
    """r_t = (anneal / 2)(1 + cos(pi t / T)): all of them (anneal 1) in round 0, and each grows elsewhere if it can."""
    run = sparse(tmp_path, {"density": 0.3, "anneal": 1.0, "regrow": "gradient"})
    layers = [(part, kept) for part, kept in run.algorithm.sparse(run.layout) if kept]
    shares = []
    for t in range(T):
        before = masks(run)
        run.advance()
        share = (1 + math.cos(math.pi * t / T)) / 2
        shares.append(share)
        for part, kept in layers:
            lost = ((before - masks(run))[:, part] > 0).sum(dim=1)
            assert (lost <= math.ceil(share * kept)).all()
    assert shares[0] == 1 and shares == sorted(shares, reverse=True) and shares[-1] < 0.15
    still = sparse(tmp_path, {"anneal": 0.0})
    first = masks(still)
    for _ in range(2):
        still.advance()
    assert torch.equal(masks(still), first)


def test_the_smallest_weights_go_and_the_largest_gradients_grow(tmp_path):
    """What stays of a layer is no smaller than what goes; what grows has gradients no smaller than what does not."""
    run = sparse(tmp_path, {"regrow": "gradient", "density": 0.4})
    algorithm, seen = run.algorithm, {}
    finish = algorithm.finish

    def watched(w, ctx):
        seen.update(w=w.abs().clone(), g=ctx.scratch["gradient"].abs().clone(), before=ctx.client["mask"].clone())
        found = finish(w, ctx)
        seen.update(after=ctx.client["mask"].clone())
        return found

    algorithm.finish = watched
    for _ in range(2):
        run.advance()
        for part, kept in algorithm.sparse(run.layout):
            for w, g, before, after in zip(*(seen[key][:, part] for key in ("w", "g", "before", "after")), strict=True):
                gone = (before > 0) & (after == 0)
                moved = math.ceil(0.25 * (1 + math.cos(math.pi * (run.round - 1) / T)) * kept)
                assert int(gone.sum()) <= moved
                smallest = w[before > 0].sort().values[:moved]
                assert not gone.any() or w[gone].max() <= smallest[-1]
                out = (after == 0) & ~gone
                grown = (after > 0) & (before == 0)
                if grown.any() and out.any():
                    assert g[grown].min() >= g[out].max()


@pytest.mark.parametrize("graph", GRAPHS)
def test_mixing_is_over_those_who_trained_the_weight(tmp_path, graph):
    """Nodes that agree on a value keep it, whatever their masks; a weight that no neighbour trained is zero."""
    run = sparse(tmp_path, {"density": 0.2}, topology={"graph": graph, **GRAPHS[graph]})
    run.advance()
    mask, store = masks(run), run.state.store["model"]
    shared = run.state.store["shared"].clone()
    assert (mask != shared).any(dim=1).all()
    near = run.topology.mixing(run.round) > 0
    trained = torch.from_numpy(near).to(shared) @ shared > 0
    store.copy_(3.0 * shared)
    run.mix()
    assert gap(store, 3.0 * mask * trained) < TOLERANCE
    assert torch.equal(run.state.store["shared"], mask) and torch.equal(masks(run), mask)
    run.state.store["shared"].copy_(shared)
    values = torch.randn(store.shape, generator=torch.Generator().manual_seed(1), dtype=store.dtype)
    store.copy_(values * shared)
    run.mix()
    for node in range(len(SIZES)):
        who = np.flatnonzero(near[node])
        for weight in range(0, run.layout.size, 97):
            having = [values[j, weight] for j in who if shared[j, weight]]
            expected = float(sum(having) / len(having)) if having and mask[node, weight] else 0.0
            assert float(store[node, weight]) == pytest.approx(expected, abs=TOLERANCE)


def test_a_node_that_does_not_train_shares_its_mixed_model(tmp_path):
    """Mixing put it under its new mask, which stays: that is the mask that it shares next, mixed or by itself."""
    topology = {"graph": "clique", "neighbours": 2}
    run = sparse(tmp_path, {"density": 0.3}, **{**HALF, "topology": topology})
    store = run.state.store
    for t in range(T):
        run.advance()
        trained = active_clients(run.config.sampling, run.client_count, run.seed, t)
        assert 0 < len(trained) < run.client_count
        moved = (store["mask"] != store["shared"]).any(dim=1)
        assert np.flatnonzero(moved.numpy()).tolist() == sorted(trained)
        assert not store["model"][store["shared"] == 0].any()


def test_a_density_below_the_dense_tensors_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"density 0\.001 leaves nothing for sparse layers: .* are 0\.\d+ of this"):
        sparse(tmp_path, {"density": 0.001})
