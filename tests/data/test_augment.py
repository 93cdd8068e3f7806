"""Augmentation against a slow, obvious implementation of the official scheme."""

from __future__ import annotations

import numpy as np
import torch

from flatfed.data import augment

MEAN, STD = torch.tensor([0.49, 0.48, 0.44]), torch.tensor([0.24, 0.25, 0.26])


def slow(image: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """One image: normalise, flip, pad by 4 pixels of zero, crop."""
    out = (image / 255 - MEAN.numpy()[:, None, None]) / STD.numpy()[:, None, None]
    flip, crop, dy, dx = (int(d) for d in draws)
    if flip:
        out = out[:, :, ::-1]
    if crop:
        padded = np.pad(out, ((0, 0), (4, 4), (4, 4)))
        out = padded[:, dy : dy + image.shape[1], dx : dx + image.shape[2]]
    return out


def test_equals_the_slow_implementation_on_every_image():
    rng = np.random.default_rng(1)
    images = rng.integers(0, 256, (6, 50, 3, 10, 12)).astype(np.uint8)
    draws = augment.draw(rng, 6, 50, "crop_flip_half")
    tensors = torch.from_numpy(images), MEAN, STD, torch.from_numpy(draws)
    out = augment.batch(*tensors, "crop_flip_half", torch.float64).numpy()
    assert out.shape == images.shape
    for i in np.ndindex(6, 50):
        assert np.abs(out[i] - slow(images[i], draws[i])).max() < 1e-6
    for scheme in ("none", "crop_flip_half"):
        plain = augment.batch(tensors[0], MEAN, STD, None, scheme, torch.float64).numpy()
        assert np.abs(plain[0, 0] - slow(images[0, 0], np.zeros(4))).max() < 1e-6, "without draws, it only normalises"


def test_draws_have_the_official_frequencies():
    draws = augment.draw(np.random.default_rng(2), 1, 90_000, "crop_flip_half")[0]
    assert np.abs(draws[:, :2].mean(axis=0) - 0.5).max() < 0.01
    assert [np.bincount(draws[:, k], minlength=9).min() > 9_600 for k in (2, 3)] == [True, True]
    assert draws.max() == 8


def test_a_batch_has_one_crop_and_one_flip():
    draws = augment.draw(np.random.default_rng(3), 2_000, 5, "crop_flip_batch")
    assert (draws == draws[:, :1]).all() and (draws[..., 1] == 1).all()
    assert abs(draws[..., 0].mean() - 0.5) < 0.05 and np.bincount(draws[:, 0, 2]).min() > 150


def test_channels_last_in_memory_also_for_images_of_one_channel():
    """The strides decide the order of a convolution's output."""
    for channels in (1, 3):
        images = torch.randn(4, channels, 6, 5)
        there = augment.channels_last(images)
        assert torch.equal(there, images) and there.stride() == (30 * channels, 1, 5 * channels, channels)
