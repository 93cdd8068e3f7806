"""The device of a job: a GPU that is absent, or too old for this build of torch."""

from unittest.mock import Mock

import pytest
import torch

from flatfed.engine.job.machine import pick_device
from flatfed.errors import FlatFedError


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there")
def test_cuda_asked_for_and_absent_fails_at_once():
    with pytest.raises(FlatFedError, match="torch sees no GPU"):
        pick_device("cuda")


@pytest.fixture
def first_kernel(monkeypatch):
    """Let torch see a V100; yield a function that sets the message with which every kernel ends."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "Tesla V100-SXM2-16GB")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (7, 0))

    def ends_with(message):
        monkeypatch.setattr(torch, "ones", Mock(side_effect=RuntimeError(message)))

    return ends_with


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_a_gpu_without_kernels_in_this_build_of_torch_is_refused_at_once(first_kernel, device):
    first_kernel("CUDA error: no kernel image is available for execution on the device\nCUDA kernel errors")
    expected = r"Tesla V100-SXM2-16GB \(compute capability 7.0\); .*https://download.pytorch.org/whl/cu126"
    with pytest.raises(FlatFedError, match=expected):
        pick_device(device)


def test_other_errors_of_the_first_kernel_are_left_to_the_job(first_kernel):
    """A GPU without free memory: the job explains it, and may use fewer clients at a time."""
    first_kernel("CUDA out of memory. Tried to allocate 20.00 MiB.")
    assert pick_device("cuda") == torch.device("cuda") and pick_device("cpu") == torch.device("cpu")
