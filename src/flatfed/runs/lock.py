"""A lock on a run folder: a second process waits or stops before it changes anything.

The kernel's lock (``flock`` on the file ``.lock``) ends with its process; a leftover file blocks nobody. Between hosts,
it works on NFS (which frees the lock of a lost host after about 90 s), and on GPFS, BeeGFS and Lustre mounted with
``flock``.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from flatfed.errors import Held

NAME = ".lock"
PATIENCE = 5.0  # seconds for a killed process to exit: Snakemake retries at once
NOTICES = 30.0  # seconds between two lines of a process that waits
HELD = (errno.EWOULDBLOCK, errno.EACCES)
REFUSED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


@contextlib.contextmanager
def held(folder: str | os.PathLike[str], pause: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock of the run ``folder``; create it if absent, and remove it afterwards if it is then empty.

    With ``pause``, wait for the lock, name its holder on stderr, and call ``pause`` at least every second.

    :raises Held: without ``pause``, another process, named in the message, holds the lock for longer than
        ``PATIENCE``.
    """
    path = Path(folder) / NAME
    created = not path.parent.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + PATIENCE
    while (descriptor := _locked(path)) is None:
        if time.monotonic() >= deadline:
            trains = f"{folder}: another process trains this run ({_holder(path)})"
            if pause is None:
                raise Held(
                    f"{trains}. Wait until it is done, or end it (kill: it leaves a checkpoint); the same command then "
                    f"goes on. Nothing was changed"
                )
            print(f"{trains}; this one waits", file=sys.stderr, flush=True)
            deadline += NOTICES
        if pause is not None:
            pause()
        time.sleep(0.05 if pause is None else 0.5)
    try:
        with contextlib.suppress(OSError):  # full disk: lock without the holder's name
            now = datetime.datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}, since {now}\n".encode())
        yield
    finally:
        with contextlib.suppress(OSError):  # read-only disk: the run reports it
            path.unlink()
            if created:
                path.parent.rmdir()
        os.close(descriptor)


def is_held(folder: str | os.PathLike[str]) -> bool:
    """Return whether a process trains in the run ``folder``, as far as this host can see."""
    with contextlib.suppress(OSError), open(Path(folder) / NAME, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno in HELD
    return False


def _holder(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8").strip()
    return "not known which"


def _locked(path: Path) -> int | None:
    """Return a locked descriptor of ``path``, None if another process holds the lock."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in REFUSED:
                os.close(descriptor)
                if error.errno in HELD:
                    return None
                raise
            print(f"{path}: no locks on this file system: let only one process train here", file=sys.stderr)
            return descriptor
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        os.close(descriptor)  # its holder has removed this file meanwhile: lock the next one
