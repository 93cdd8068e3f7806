"""One process to a run folder: the one that trains there holds a lock, and a second stops before it touches anything.

The lock is the kernel's (``flock`` on the file ``.lock``), not the file: it goes with its process, however that ends,
and what lies there after a SIGKILL or a power cut stops nobody. Among processes of one host it holds on every file
system; between hosts on NFS (Linux makes it a lock of the server's, which frees one of a lost host when its lease ends,
some 90 s), GPFS, BeeGFS and Lustre where it is mounted with ``flock``. A file system that refuses locks is named on
stderr, and the run goes on without one.
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
PATIENCE = 5.0  # seconds that a killed process may take to go: Snakemake's retry begins at once
HELD = (errno.EWOULDBLOCK, errno.EACCES)
REFUSED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


@contextlib.contextmanager
def held(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the lock of the run ``folder``, which is made if absent.

    In the end the lock's file is removed, and the folder too if it was made here and is empty.

    Raises FlatFedError, naming who trains there, where another process still does after ``PATIENCE`` seconds.
    """
    path, holder = Path(folder) / NAME, "not known which"
    made = not path.parent.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + PATIENCE
    while (descriptor := _taken(path)) is None:
        if time.monotonic() >= deadline:
            with contextlib.suppress(OSError):
                holder = path.read_text(encoding="utf-8").strip()
            raise FlatFedError(
                f"{folder}: another process trains this run ({holder}). Wait until it is done, or end it "
                f"(kill: it leaves a checkpoint); the same command then goes on. Nothing was changed"
            )
        time.sleep(0.05)
    try:
        with contextlib.suppress(OSError):  # on a full disk: it locks without saying for whom
            now = datetime.datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}, since {now}\n".encode())
        yield
    finally:
        with contextlib.suppress(OSError):  # of a disk that turned read-only, the run itself says so
            path.unlink()
            if made:
                path.parent.rmdir()  # a run that was refused leaves nothing
        os.close(descriptor)


def is_held(folder: str | os.PathLike[str]) -> bool:
    """Return whether a process trains in the run ``folder``, as far as this host can see. Changes nothing."""
    with contextlib.suppress(OSError), open(Path(folder) / NAME, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno in HELD
    return False


def _taken(path: Path) -> int | None:
    """Return the descriptor of the file ``path``, locked, or None where another process has it locked."""
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
            print(f"{path}: no locks on this file system: see to it that one process trains here", file=sys.stderr)
            return descriptor
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        os.close(descriptor)  # of a process that removed it meanwhile: the next one is another file
