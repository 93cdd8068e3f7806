"""The device of a job: a GPU that is absent, or too old for this build of torch."""

from contextlib import nullcontext
from unittest.mock import Mock

import pytest
import torch

from flatfed.engine.job.machine import pick_device
from flatfed.errors import FlatFedError


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there")
def test_cuda_asked_for_and_absent_fails_at_once():
    with pytest.raises(FlatFedError, match="torch sees no GPU"):
        pick_device("cuda")


OLD = "CUDA error: no kernel image is available for execution on the device\nCUDA kernel errors"
TOO_OLD = r"Tesla V100-SXM2-16GB \(compute capability 7.0\); .*https://download.pytorch.org/whl/cu126"


@pytest.mark.parametrize("device", ["auto", "cuda"])
@pytest.mark.parametrize(("message", "refusal"), [(OLD, TOO_OLD), ("CUDA out of memory. Tried to", None)])
def test_a_gpu_without_kernels_in_this_build_of_torch_is_refused_at_once(monkeypatch, device, message, refusal):
    """A GPU without free memory is left to the job: it explains it, and may use fewer clients at a time."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "Tesla V100-SXM2-16GB")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (7, 0))
    monkeypatch.setattr(torch, "ones", Mock(side_effect=RuntimeError(message)))
    with pytest.raises(FlatFedError, match=refusal) if refusal else nullcontext():
        assert pick_device(device) == torch.device("cuda")
