"""A lock on a run folder: a second process stops before it changes anything.

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
from collections.abc import Iterator
from pathlib import Path

from flatfed.errors import FlatFedError

NAME = ".lock"
PATIENCE = 5.0  # seconds for a killed process to exit: Snakemake retries at once
HELD = (errno.EWOULDBLOCK, errno.EACCES)
REFUSED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


@contextlib.contextmanager
def held(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the lock of the run ``folder``; create it if absent, and remove it afterwards if it is then empty.

    :raises FlatFedError: another process, named in the message, holds the lock for longer than ``PATIENCE``.
    """
    path, holder = Path(folder) / NAME, "not known which"
    created = not path.parent.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + PATIENCE
    while (descriptor := _locked(path)) is None:
        if time.monotonic() >= deadline:
            with contextlib.suppress(OSError):
                holder = path.read_text(encoding="utf-8").strip()
            raise FlatFedError(
                f"{folder}: another process trains this run ({holder}). Wait until it is done, or end it "
                f"(kill: it leaves a checkpoint); the same command then goes on. Nothing was changed"
            )
        time.sleep(0.05)
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
