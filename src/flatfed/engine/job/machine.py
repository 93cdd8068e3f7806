"""What a process trains on: the device, what torch does there, and what is recorded of both."""

from __future__ import annotations

import os
import platform
from typing import Any

import numpy as np
import safetensors
import torch

import flatfed
from flatfed.engine.memory.available import reuse_memory
from flatfed.engine.precision import set_tensor_floats, tensor_floats
from flatfed.errors import FlatFedError
from flatfed.runs import host


def pick_device(wanted: str) -> torch.device:
    """Return the device for ``auto``, ``cpu`` or ``cuda``; FlatFedError where cuda is asked for and absent."""
    if wanted == "cuda" and not torch.cuda.is_available():
        raise FlatFedError(
            "device: cuda was asked for, but torch sees no GPU. Use `--config device=cpu` (or auto), or check that "
            "CUDA_VISIBLE_DEVICES and the driver fit this build of torch"
        )
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(wanted)


def set_up(threads: int) -> None:
    """Set what torch does on this machine: as the official code, TF32 on and cuDNN deterministic; memory is reused."""
    torch.set_num_threads(threads)
    # cuBLAS takes other algorithms from call to call where streams share its workspace; it reads this when it starts.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    reuse_memory()
    set_tensor_floats()
    torch.backends.cudnn.deterministic = True


def machine(place: torch.device, threads: int) -> dict[str, Any]:
    """Return what a session of training runs on: device, threads, libraries and host, as run.json has them."""
    cuda = place.type == "cuda"
    return {
        "device": place.type,
        "threads": threads,
        "tf32": cuda and tensor_floats(),
        "libraries": {
            "flatfed": flatfed.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
            "safetensors": safetensors.__version__,
        },
        "host": {
            "system": platform.platform(),
            "processor": host.processor(),
            "instructions": list(host.instructions()),
            "gpu": torch.cuda.get_device_name(place) if cuda else None,
        },
    }
