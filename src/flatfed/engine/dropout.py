"""Dropout masks, computed on the device from a pair of numbers per step, with the same bits on every device.

A mask is a function of key and position, independent of the batch's width and the other rows: triple32 (C. Wellons,
hash-prospector, 2018), a permutation of 32-bit numbers whose output bits depend almost evenly on all input bits. Half
of the key enters before the first product, half after it.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from flatfed.data.streams import stream

Sites = list[tuple[tuple[int, ...], float]]  # (shape of an image's mask, rate) per site: ``dropout`` of a model

ROUNDS = ((17, 0xED5AD4BB), (11, 0xAC4C1B51), (15, 0x31848BAB))  # triple32 without its last shift
DRAW = 1 << 16  # a draw is half a 32-bit number; rates are rounded to multiples of 1 / DRAW


def keys(seed: int, round_: int, client: int, steps: int, sites: int) -> np.ndarray:
    """Return the keys (steps, sites, 2) of a client's masks in a round."""
    drawn = stream(seed, "dropout", round_, client).integers(0, 1 << 32, (steps, sites, 2), dtype=np.uint32)
    return drawn.view(np.int32)


def masks(keys: Tensor, sites: Sites, width: int, dtype: torch.dtype) -> list[Tensor]:
    """Return each site's scaled mask (rows, ``width``, *shape): 0 for dropped values, else 1 / (1 - rate).

    ``keys`` (rows, sites, 2), int32, on the device of the masks.
    """
    scaled = []
    for key, (shape, rate) in zip(keys.unbind(1), sites, strict=True):
        size, dropped = width * math.prod(shape), min(round(rate * DRAW), DRAW - 1)
        draws = _mixed(key, -(-size // 2)).view(torch.int16)[:, :size]
        keep = draws >= dropped - DRAW // 2
        scaled.append(keep.view(len(keys), width, *shape).to(dtype).div_(1 - dropped / DRAW))
    return scaled


def _mixed(key: Tensor, count: int) -> Tensor:
    """Return ``count`` 32-bit numbers per row of ``key`` (rows, 2)."""
    before, after = key.split(1, dim=1)
    mixed = torch.arange(count, dtype=torch.int32, device=key.device) ^ before
    for number, (shift, factor) in enumerate(ROUNDS):
        if number == 1:
            mixed.add_(after)
        # The shift copies the sign: mask it.
        mixed.bitwise_xor_((mixed >> shift).bitwise_and_((1 << 32 - shift) - 1))
        mixed.mul_(factor - (1 << 32) if factor >> 31 else factor)
    return mixed
