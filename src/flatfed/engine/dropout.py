"""Dropout masks, computed where they are needed from a pair of numbers a step: the same bits on every device.

A mask is a function of its key and of the place in it: nothing is drawn in turn, so that the host has two numbers to
draw and send for every client, step and dropout, and a batch's width or company changes nothing. The function is
triple32 (C. Wellons, hash-prospector, 2018), a permutation of the numbers of 32 bits whose output bits each depend on
every input bit about evenly; half of the key enters before its first product, half after.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from flatfed.data.streams import stream

Sites = list[tuple[tuple[int, ...], float]]  # shape of one image's mask and rate, as models have them under ``dropout``

ROUNDS = ((17, 0xED5AD4BB), (11, 0xAC4C1B51), (15, 0x31848BAB))  # triple32 without its last shift: high bits count
DRAW = 1 << 16  # a draw is half a number of 32 bits, and rates are multiples of one over this


def keys(seed: int, round_: int, client: int, steps: int, sites: int) -> np.ndarray:
    """Return the keys (steps, sites, 2) of one client's masks in a round."""
    drawn = stream(seed, "dropout", round_, client).integers(0, 1 << 32, (steps, sites, 2), dtype=np.uint32)
    return drawn.view(np.int32)


def masks(keys: Tensor, sites: Sites, width: int, dtype: torch.dtype) -> list[Tensor]:
    """Return each site's scaled mask (rows, ``width``, *shape): 0 where dropped, else 1 / (1 - rate).

    ``keys`` (rows, sites, 2), int32, on the device that masks are wanted on. Raises ValueError for keys of more or
    fewer sites.
    """
    scaled = []
    for key, (shape, rate) in zip(keys.unbind(1), sites, strict=True):
        size, dropped = width * math.prod(shape), min(round(rate * DRAW), DRAW - 1)
        draws = _mixed(key, -(-size // 2)).view(torch.int16)[:, :size]
        keep = draws >= dropped - DRAW // 2
        scaled.append(keep.view(len(keys), width, *shape).to(dtype).div_(1 - dropped / DRAW))
    return scaled


def _mixed(key: Tensor, count: int) -> Tensor:
    """Return ``count`` numbers of 32 bits for every row of ``key`` (rows, 2)."""
    first, second = key.split(1, dim=1)
    mixed = torch.arange(count, dtype=torch.int32, device=key.device) ^ first
    for number, (shift, factor) in enumerate(ROUNDS):
        if number == 1:
            mixed.add_(second)
        # The shift copies the sign, and is wanted without.
        mixed.bitwise_xor_((mixed >> shift).bitwise_and_((1 << 32 - shift) - 1))
        mixed.mul_(factor - (1 << 32) if factor >> 31 else factor)
    return mixed
