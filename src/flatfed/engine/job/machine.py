"""The device and settings of a process, and what its device can compute."""

from __future__ import annotations

import os
import platform
from typing import Any

import numpy as np
import safetensors
import torch

import flatfed
from flatfed.engine.job.memory import reuse_memory
from flatfed.engine.precision import SWITCHES
from flatfed.errors import FlatFedError
from flatfed.runs import host, source_code
from flatfed.runs.run_config import RunConfig


def pick_device(name: str) -> torch.device:
    """Return the device for ``auto``, ``cpu`` or ``cuda``; FlatFedError without a GPU for cuda, or one too old."""
    if name == "cuda" and not torch.cuda.is_available():
        raise FlatFedError(
            "device: cuda was requested, but torch sees no GPU. Use `--config device=cpu` (or auto), or check that "
            "CUDA_VISIBLE_DEVICES and the driver fit this build of torch"
        )
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.ones(1, device=name).add_(1).cpu()
    except RuntimeError as error:  # others appear where the job handles them
        if "no kernel image is available" in str(error):
            gpu, capability = torch.cuda.get_device_name(), ".".join(map(str, torch.cuda.get_device_capability()))
            raise FlatFedError(
                f"device: torch {torch.__version__} has no kernels for {gpu} (compute capability {capability}); its "
                "default builds need 7.5 or later. Use `--config device=cpu` or the build for CUDA 12.6: `pip install "
                "--force-reinstall torch torchvision --index-url https://download.pytorch.org/whl/cu126` (running.md)"
            ) from error
    return torch.device(name)


def check_bfloat16(config: RunConfig, device: torch.device) -> None:
    """Refuse a run in bfloat16 on a CPU without (known) units for it; FlatFedError."""
    instructions = host.instructions()
    if config.precision != "bfloat16" or device.type != "cpu" or {*host.BFLOAT16} & {*instructions}:
        return
    reason = "has no units for it" if instructions else "does not report whether it has units for it"
    raise FlatFedError(
        f"precision: bfloat16: {host.processor()} {reason} ({', '.join(host.BFLOAT16)}) and would emulate it slowly. "
        "Train in float32, or on another CPU or a GPU"
    )


def set_up(threads: int) -> None:
    """Configure torch as the official code does (TF32 on, cuDNN deterministic), and reuse memory."""
    torch.set_num_threads(threads)
    # Otherwise cuBLAS can change its algorithm between calls of several streams.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    reuse_memory()
    for switch in SWITCHES:
        switch.fp32_precision = "tf32"
    torch.backends.cudnn.deterministic = True


def machine(device: torch.device, threads: int) -> dict[str, Any]:
    """Return a training session's device, threads, libraries, host and sources, as in run.json."""
    cuda = device.type == "cuda"
    return {
        "device": device.type,
        "threads": threads,
        "tf32": cuda and torch.backends.cudnn.conv.fp32_precision == "tf32",
        "libraries": {
            "flatfed": flatfed.__version__,
            "python": platform.python_version(),
            **{module.__name__: module.__version__ for module in (torch, np, safetensors)},
        },
        "host": {
            "system": platform.platform(),
            "processor": host.processor(),
            "instructions": list(host.instructions()),
            "gpu": torch.cuda.get_device_name(device) if cuda else None,
        },
        "commit": source_code.commit(),
        "package_digest": source_code.package_digest(),
    }
