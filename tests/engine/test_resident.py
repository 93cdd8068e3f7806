"""Images during a training: on the device, or memory-mapped on the host if they would not fit."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from flatfed.engine import batches
from flatfed.engine.resident import Resident, placed

CPU, META = torch.device("cpu"), torch.device("meta")  # the second: a device without memory of its own


@pytest.fixture
def mapped(tmp_path):
    """A memory-mapped array of ten images, 480 bytes in all."""
    np.save(tmp_path / "images.npy", np.arange(480).reshape(10, 3, 4, 4).astype(np.uint8))
    return np.load(tmp_path / "images.npy", mmap_mode="c")


@pytest.mark.parametrize(("device", "free", "moves"), [("cuda", 958, False), ("cuda", 960, True), ("cpu", 0, True)])
def test_images_stay_on_the_host_if_they_take_over_half_of_a_gpus_free_memory(mapped, monkeypatch, device, free, moves):
    moved = []
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 2 * free))
    monkeypatch.setattr(torch.Tensor, "to", lambda self, device: moved.append(device) or self)
    images = placed(mapped, torch.device(device))
    assert moved == [torch.device(device)] * moves
    assert images.data_ptr() == mapped.ctypes.data, "nothing was read into memory"


@pytest.fixture
def resident(mapped, monkeypatch):
    """Return a function that puts images on the host for a training on ``device``."""
    monkeypatch.setattr("flatfed.engine.resident.placed", lambda images, _: placed(images, CPU))
    data, settings = (SimpleNamespace(images=mapped, labels=np.zeros(10, int)), SimpleNamespace(mean=[0.4], std=[0.2]))
    return lambda device: Resident(data, settings, "none", device, torch.float32)


def test_batches_of_images_on_the_host_are_sent_to_the_device(mapped, resident):
    index = torch.tensor([[3, 0], [9, 3]])
    assert resident(META).batch(index).device == META
    expected = (torch.from_numpy(np.asarray(mapped))[index] / 255 - 0.4) / 0.2
    assert torch.allclose(resident(CPU).batch(index), expected, atol=1e-6)


def test_images_on_the_device_are_not_sent_again(resident, monkeypatch):
    """Tensors report "cuda:0", and here "cpu", where the run's device is "cuda" or "cpu:0"."""
    monkeypatch.setattr("flatfed.engine.resident.to_device", None)
    assert resident(torch.device("cpu:0")).batch(torch.tensor([3])).device == CPU


def test_the_index_of_images_on_the_host_stays_there(resident):
    """On the device, every step would wait for it to come back."""
    schedule = batches.Schedule(4, 1)
    plan = batches.plan(np.arange(1), [np.arange(7)], schedule, seed=1, round_=0, augmentation="crop_flip_half")
    inputs = resident(META).inputs(plan)
    assert np.array_equal(inputs.pop("index"), plan.index)
    assert all(values.device == META for values in inputs.values())
