"""Two random directions in the space of a model's weights, comparable between models by filter normalisation.

Li, Xu, Taylor, Studer and Goldstein, Visualizing the Loss Landscape of Neural Nets, NeurIPS 2018, section 4: each
filter of a Gaussian direction is scaled to the norm of the model's own filter. A filter is a row of a dense layer or a
kernel (inputs, height, width) of a convolution.

Scaling makes nearly orthogonal vectors less orthogonal: FlatFed first makes them orthogonal within every filter.
One-dimensional tensors (biases, normalisation layers) have no filters: both directions are zero.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from flatfed.algorithms._layout import Layout
from flatfed.data.streams import stream


def draw(layout: Layout, row: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Return two directions (parameters,) for the weights ``row`` (parameters,), in its dtype and on its device.

    Models of the same shapes share the draw of a ``seed``. A filter of zeros gives zeros. In a filter of one weight,
    the second direction is zero.
    """
    generators = [stream(seed, "directions", number) for number in range(2)]
    directions = [np.zeros(layout.size) for _ in generators]
    weights = row.detach().cpu().double().numpy()
    for shape, part in zip(layout.shapes, layout.slices().values(), strict=True):
        drawn = [generator.standard_normal(part.stop - part.start) for generator in generators]
        if len(shape) < 2:
            continue
        u, v = (values.reshape(shape[0], -1) for values in drawn)
        for _ in range(2):  # the second pass removes the rounding of the first
            v = v - u * (_dot(u, v) / _dot(u, u))
        if u.shape[1] == 1:
            v = np.zeros_like(u)
        filters = weights[part].reshape(shape[0], -1)
        norms = np.sqrt(_dot(filters, filters))
        for direction, values in zip(directions, (u, v), strict=True):
            length = np.sqrt(_dot(values, values))
            scale = np.divide(norms, length, out=np.zeros_like(norms), where=length > 0)
            direction[part] = (values * scale).reshape(-1)
    u, v = (torch.from_numpy(direction).to(row.device, row.dtype) for direction in directions)
    return u, v


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b).sum(axis=1, keepdims=True)
