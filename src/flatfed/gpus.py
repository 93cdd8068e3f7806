"""GPUs: detected without torch, and assigned one per job, which Snakemake does not do."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

from flatfed.errors import FlatFedError

DRIVER = Path("/proc/driver/nvidia/gpus")
OTHERS = (Path("/dev/kfd"), Path("/dev/dxg"))  # AMD, WSL: GPUs that NVIDIA's driver does not list


def visible() -> list[str]:
    """Return the ids of the GPUs visible to CUDA, as in CUDA_VISIBLE_DEVICES."""
    if (mask := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        # CUDA ignores all entries after the first invalid one.
        return list(takewhile(lambda entry: entry not in ("", "-1", "NoDevFiles"), map(str.strip, mask.split(","))))
    if DRIVER.is_dir():
        return [str(i) for i in range(len(list(DRIVER.iterdir())))]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=10, check=True).stdout
        return [str(i) for i in range(sum(line.startswith("GPU ") for line in listing.splitlines()))]
    return []


def resolve(device: str) -> str:
    """Return "cuda" or "cpu" for ``device``: "auto", "cpu" or "cuda"."""
    if device == "auto":
        return "cuda" if visible() else "cpu"
    return device


def demanded(device: str) -> str:
    """Return :func:`resolve` of ``device``; FlatFedError if "cuda" is requested without any GPU."""
    if device == "cuda" and not visible() and not any(path.exists() for path in OTHERS):
        mask = os.environ.get("CUDA_VISIBLE_DEVICES")
        why = f"CUDA_VISIBLE_DEVICES={mask!r} hides all" if mask is not None else "`nvidia-smi` lists none"
        raise FlatFedError(
            f"device: cuda was requested, but this host has no GPU: {why}. Use `--config device=cpu` (or auto), for "
            f"`flatfed` `--device cpu`; or use a host with a GPU: on Slurm, `--workflow-profile profiles/slurm`"
        )
    return resolve(device)


def of_jobs(device: str, local: bool) -> str:
    """Return :func:`resolve` of ``device`` for jobs; FlatFedError if it is "auto" and they are not ``local``."""
    if device == "auto" and not local:
        refusal = "device: auto checks this host, but jobs run on other hosts"
        raise FlatFedError(f"{refusal}: say --config device=cuda (or device=cpu)")
    return resolve(device)


@contextlib.contextmanager
def claimed() -> Iterator[str | None]:
    """Yield a GPU that no other FlatFed job of this user holds, None with fewer than two GPUs.

    Hides the other GPUs from CUDA, so call it before importing torch. Surplus jobs share GPUs.
    """
    ids = visible()
    if len(ids) < 2:
        yield None
        return
    with contextlib.ExitStack() as stack:
        claimed_gpu = next((gpu for gpu in ids if _locked(gpu, stack)), ids[os.getpid() % len(ids)])
        os.environ["CUDA_VISIBLE_DEVICES"] = claimed_gpu
        yield claimed_gpu


def _locked(gpu: str, stack: contextlib.ExitStack) -> bool:
    """Lock ``gpu`` until ``stack`` ends; False if another job holds it."""
    # Two Slurm allocations on a host may use the same ids for different GPUs.
    owner = f"{os.getuid()}-{os.environ.get('SLURM_JOB_ID', 'host')}"
    path = Path(tempfile.gettempdir()) / f"flatfed-gpu-{owner}-{gpu.replace('/', '_')}.lock"
    file = stack.enter_context(path.open("w"))
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
