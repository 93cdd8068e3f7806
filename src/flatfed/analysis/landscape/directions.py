"""Two random directions in the space of a model's weights, comparable between models by filter normalisation.

Li, Xu, Taylor, Studer and Goldstein, Visualizing the Loss Landscape of Neural Nets, NeurIPS 2018, section 4: a
direction is Gaussian, and every filter of it is scaled to the norm of the model's own filter, because networks with
ReLU or normalisation layers do the same with all weights of a filter made larger and those behind it smaller. A filter
is what makes one output: a row of a dense layer, a kernel (inputs, height, width) of a convolution.

Two Gaussian vectors are nearly orthogonal, and scaling each filter of both spoils that. Here they are made orthogonal
within every filter first, which no scaling of whole filters can undo. One-dimensional tensors (biases, the scales and
shifts of normalisation layers) have no filters and are left where they are: both directions are zero there.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from flatfed.data.streams import stream
from flatfed.engine.layout import Layout


def draw(layout: Layout, row: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Return two directions (parameters,) for the weights ``row`` (parameters,), in its dtype and on its device.

    They depend on ``seed``, the shapes of the tensors and the norms of the filters of ``row``, so that models of one
    shape see the same draw. A filter of zeros gives zeros. A filter of a single weight has no room for two orthogonal
    directions: the second is zero there.
    """
    generators = [stream(seed, "directions", number) for number in range(2)]
    directions = [np.zeros(layout.size) for _ in generators]
    own = row.detach().cpu().double().numpy()
    for shape, place in zip(layout.shapes, layout.slices().values(), strict=True):
        drawn = [generator.standard_normal(place.stop - place.start) for generator in generators]
        if len(shape) < 2:
            continue
        first, second = (values.reshape(shape[0], -1) for values in drawn)
        for _ in range(2):  # once more takes away what rounding left of the first in the second
            second = second - first * (_dot(first, second) / _dot(first, first))
        if first.shape[1] == 1:
            second = np.zeros_like(first)
        filters = own[place].reshape(shape[0], -1)
        norms = np.sqrt(_dot(filters, filters))
        for direction, values in zip(directions, (first, second), strict=True):
            length = np.sqrt(_dot(values, values))
            scale = np.divide(norms, length, out=np.zeros_like(norms), where=length > 0)
            direction[place] = (values * scale).reshape(-1)
    first, second = (torch.from_numpy(direction).to(row.device, row.dtype) for direction in directions)
    return first, second


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the inner products (filters, 1) of the filters of ``a`` and ``b`` (filters, weights)."""
    return (a * b).sum(axis=1, keepdims=True)
