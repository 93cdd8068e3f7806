"""Directions of a loss surface, by their definition: orthogonal in every filter, as long as it, one draw for all."""

from __future__ import annotations

import pytest
import torch

from flatfed import models
from flatfed.algorithms._layout import Layout
from flatfed.analysis.landscape.directions import draw


@pytest.mark.parametrize(
    ("name", "shape", "dtype"),
    [("cnn_tiny", (1, 8, 8), torch.float64), ("resnet18_gn", (3, 8, 8), torch.float32)],
)
def test_directions_are_orthogonal_in_every_filter_and_as_long_as_it(name, shape, dtype):
    model = models.build(name, shape, 10, {})
    layout = Layout.of(model)
    weights = models.initial_weights(model, torch.Generator().manual_seed(1)).to(dtype)
    drawn = draw(layout, weights, 0)
    assert all(direction.dtype == dtype for direction in drawn)
    own, first, second = (layout.views(value.double()) for value in (weights, *drawn))
    for tensor, shape_ in zip(layout.names, layout.shapes, strict=True):
        a, b, w = (value[tensor].reshape(shape_[0], -1) for value in (first, second, own))
        if len(shape_) == 1:
            assert not a.any() and not b.any()
            continue
        norm = w.norm(dim=1)
        for direction in (a, b):
            torch.testing.assert_close(direction.norm(dim=1), norm, rtol=1e-6, atol=0)
        assert ((a * b).sum(dim=1).abs() <= 1e-6 * norm.square()).all()


def test_models_of_one_shape_see_the_same_draw():
    layout = Layout.of(models.build("cnn_tiny", (1, 8, 8), 3, {}))
    one, other = (
        torch.randn(layout.size, dtype=torch.float64, generator=torch.Generator().manual_seed(s)) for s in (1, 2)
    )
    kernel = layout.slices()["conv2.weight"]

    def unit(direction):
        filters = direction[kernel].reshape(16, -1)
        return filters / filters.norm(dim=1, keepdim=True)

    for mine, theirs in zip(draw(layout, one, 7), draw(layout, other, 7), strict=True):
        torch.testing.assert_close(unit(mine), unit(theirs))
    assert not torch.allclose(unit(draw(layout, one, 7)[0]), unit(draw(layout, one, 8)[0]))


def test_filters_without_length_or_room():
    layout = Layout(("single", "rows"), ((3, 1), (2, 4)))
    weights = torch.tensor([1.0, -2, 0, *[0.0] * 4, *[1.0] * 4])
    first, second = draw(layout, weights, 0)
    assert first[:3].abs().tolist() == [1, 2, 0] and second[:3].tolist() == [0, 0, 0]
    assert not first[3:7].any() and not second[3:7].any()
    assert first[7:].norm().item() == pytest.approx(2) and second[7:].norm().item() == pytest.approx(2)
