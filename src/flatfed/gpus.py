"""Which GPUs this process may use, found without torch, and one of them for each job.

Snakemake limits how many GPU jobs run at a time on a machine but gives none of them a device: that is done here.
"""

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
OTHERS = (Path("/dev/kfd"), Path("/dev/dxg"))  # GPUs that NVIDIA's driver does not list: AMD's, and those of WSL


def visible() -> list[str]:
    """Return the ids of the GPUs that CUDA would show, as CUDA_VISIBLE_DEVICES writes them."""
    if (mask := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        # CUDA ignores everything from the first invalid entry on; "-1" and "" are the customary ones for "none".
        return list(takewhile(lambda entry: entry not in ("", "-1", "NoDevFiles"), map(str.strip, mask.split(","))))
    if DRIVER.is_dir():
        return [str(i) for i in range(len(list(DRIVER.iterdir())))]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=10, check=True).stdout
        return [str(i) for i in range(sum(line.startswith("GPU ") for line in listing.splitlines()))]
    return []


def resolve(device: str) -> str:
    """Return "cuda" or "cpu" for the configuration's ``device`` ("auto", "cpu" or "cuda")."""
    if device == "auto":
        return "cuda" if visible() else "cpu"
    return device


def demanded(device: str) -> str:
    """Return what :func:`resolve` does, for a job that is about to begin.

    Raises FlatFedError, saying what to do, where "cuda" is asked for and there is surely no GPU.
    """
    if device == "cuda" and not visible() and not any(path.exists() for path in OTHERS):
        mask = os.environ.get("CUDA_VISIBLE_DEVICES")
        why = f"CUDA_VISIBLE_DEVICES={mask!r} hides all" if mask is not None else "`nvidia-smi` lists none"
        raise FlatFedError(
            f"device: cuda was asked for, but there is no GPU here: {why}. Use `--config device=cpu` (or auto), on the "
            f"command line `--device cpu`; or go to a host with a GPU: on Slurm, `--workflow-profile profiles/slurm`"
        )
    return resolve(device)


@contextlib.contextmanager
def claimed() -> Iterator[str | None]:
    """Reserve a GPU that no other FlatFed job of this machine and user has, and make it the only one CUDA shows.

    Call before torch is imported. Yields the id, or None where there is no choice (no GPU or one). With more jobs than
    GPUs the surplus is dealt by process number: they share.
    """
    ids = visible()
    if len(ids) < 2:
        yield None
        return
    with contextlib.ExitStack() as stack:
        mine = next((gpu for gpu in ids if _locked(gpu, stack)), ids[os.getpid() % len(ids)])
        os.environ["CUDA_VISIBLE_DEVICES"] = mine
        yield mine


def _locked(gpu: str, stack: contextlib.ExitStack) -> bool:
    """Take the lock of ``gpu`` until ``stack`` ends or the process dies; False if another job has it."""
    # Two allocations of Slurm's on one host may both call their GPUs 0 and 1, and mean different ones.
    owner = f"{os.getuid()}-{os.environ.get('SLURM_JOB_ID', 'host')}"
    path = Path(tempfile.gettempdir()) / f"flatfed-gpu-{owner}-{gpu.replace('/', '_')}.lock"
    file = stack.enter_context(path.open("w"))
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
