"""Where images lie while a model trains: on the device, or memory-mapped on the host where they would not fit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flatfed.engine import batches
from flatfed.engine.feed import Feed
from flatfed.engine.resident import Resident, placed


@pytest.fixture
def mapped(tmp_path):
    """A memory-mapped array of ten images, 480 bytes in all."""
    np.save(tmp_path / "images.npy", np.arange(480).reshape(10, 3, 4, 4).astype(np.uint8))
    return np.load(tmp_path / "images.npy", mmap_mode="c")


@pytest.mark.parametrize(("free", "stays"), [(480 * 2 - 2, True), (480 * 2, False)])
def test_images_stay_on_the_host_where_they_take_over_half_of_a_gpus_free_memory(mapped, monkeypatch, free, stays):
    moved = []
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 2 * free))
    monkeypatch.setattr(torch.Tensor, "to", lambda self, device: moved.append(device) or self)
    found = placed(mapped, torch.device("cuda"))
    assert moved == ([] if stays else [torch.device("cuda")])
    assert found.data_ptr() == mapped.ctypes.data, "nothing was read into memory"


def test_on_a_cpu_images_stay_memory_mapped(mapped):
    assert placed(mapped, torch.device("cpu")).data_ptr() == mapped.ctypes.data


def test_batches_of_images_on_the_host_come_to_the_device(mapped):
    def resident(place):
        mean, std = (torch.full((3,), value, device=place) for value in (0.4, 0.2))
        images, labels = placed(mapped, torch.device("cpu")), torch.zeros(10, dtype=torch.int64)
        return Resident(images, labels, mean, std, torch.float32, "none")

    index = torch.tensor([[3, 0], [9, 3]])
    # a device without memory of its own: what is gathered on the host must be sent there
    assert resident("meta").batch(index).device == torch.device("meta")
    expected = (torch.from_numpy(np.asarray(mapped))[index] / 255 - 0.4) / 0.2
    assert torch.allclose(resident("cpu").batch(index), expected, atol=1e-6)


def test_the_index_of_images_on_the_host_stays_there(mapped):
    """It comes from there: sent to the device, every step would wait for it to come back."""
    device = torch.device("meta")
    data = Resident(placed(mapped, torch.device("cpu")), torch.zeros(10, dtype=torch.int64, device=device), *[None] * 4)
    data.dtype = torch.float32
    feed = Feed(data, None)
    one = np.arange(1)
    plan = batches.plan(one, [np.arange(7)], batches.Schedule(4, 1), seed=1, round_=0, augmentation="crop_flip_half")
    inputs = feed.inputs(plan, device)
    assert np.array_equal(inputs.pop("index"), plan.index)
    assert all(values.device == device for values in inputs.values())
