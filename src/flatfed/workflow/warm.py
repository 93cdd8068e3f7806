"""Start-up paid once: a process that has imported torch, of which training jobs are forks.

A preview run may train for a second, and importing torch takes longer. Where the environment variable FLATFED_WARM
names a folder and a process, ``<folder>:<pid>``, a job asks the server in that folder to fork itself and do the work,
with the job's arguments, folder, environment, files, umask, priority and cores; other limits (ulimit) are those of the
job that started the server. The first job does, and the server ends with the process ``pid`` (Snakemake). flatfed
itself is imported in the fork, so that it is always what is on the disk. A job by hand, without the variable, starts as
any other program, and so does one whose server cannot be reached or has once failed to start.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

VARIABLE = "FLATFED_WARM"
COMMANDS = ("train", "hessian", "surface")  # those that import torch
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
LONGEST = 107  # bytes of a socket's path
PATIENCE = 60  # seconds a server may take to import torch


def run(arguments: Sequence[str]) -> int | None:
    """Have the server's fork run the command line ``arguments``; return its exit status, None where there is no server.

    SIGINT and SIGTERM are handed on to the fork, whose answer to them (a checkpoint, see
    :mod:`flatfed.engine.job.interruption`) is waited for.
    """
    if VARIABLE not in os.environ or not arguments or arguments[0] not in COMMANDS:
        return None
    folder, _, owner = os.environ[VARIABLE].rpartition(":")
    try:
        connection = _connect(Path(folder), owner)
    except OSError:
        return None
    with connection:
        # sys.path[0] belongs to `python -m`; the rest is what PYTHONPATH and the environment gave.
        request = {"arguments": list(arguments), "environ": dict(os.environ), "path": sys.path, **_surroundings()}
        content = json.dumps(request).encode()
        socket.send_fds(connection, [len(content).to_bytes(8, "big")], [0, 1, 2])
        connection.sendall(content)
        answers = connection.makefile("r")
        first = answers.readline()
        if not first:
            return None
        child, handed_on = int(first), []

        def hand_on(number: int, _: Any) -> None:
            handed_on.append(number)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, hand_on)
        status = answers.readline()
    if status:
        return int(status)
    if handed_on:
        return 128 + handed_on[-1]
    print("flatfed: the training process ended without a status: killed, or out of memory", file=sys.stderr)
    return 1


def _surroundings() -> dict[str, Any]:
    """Return what a process of its own would inherit from its parent: folder, umask, priority, cores."""
    umask = os.umask(0)
    os.umask(umask)
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return {"cwd": os.getcwd(), "umask": umask, "nice": os.getpriority(os.PRIO_PROCESS, 0), "cores": cores}


def _take(request: dict[str, Any]) -> None:
    """Make this process's surroundings those of ``request``; only some users may have a priority above its own."""
    os.chdir(request["cwd"])
    os.umask(request["umask"])
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, request["nice"])
    if request["cores"]:
        os.sched_setaffinity(0, request["cores"])


def _connect(folder: Path, owner: str) -> socket.socket:
    """Return a connection to the server of this python in ``folder``, started where there is none; OSError if not."""
    key = hashlib.sha256(f"{sys.executable} {sys.prefix}".encode()).hexdigest()[:16]
    address = folder / f"{key}.socket"
    if len(os.fsencode(address)) > LONGEST:
        raise OSError(f"{address} is too long a path for a socket")
    with open(folder / f"{key}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with contextlib.suppress(OSError):
            return _dial(address)
        failed = folder / f"{key}.failed"
        if failed.exists():
            raise OSError(f"the server at {address} could not be started before")
        address.unlink(missing_ok=True)
        with open(folder / f"{key}.log", "w") as log:
            command = [sys.executable, "-m", "flatfed.workflow.warm", str(address), owner]
            quiet = {**os.environ, **dict.fromkeys(THREADS, "1")}  # threads do not survive a fork; jobs set their own
            server = subprocess.Popen(
                command, env=quiet, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and server.poll() is None:
            with contextlib.suppress(OSError):
                return _dial(address)
            time.sleep(0.02)
        failed.touch()  # one job has waited; the others need not
    raise OSError(f"no server at {address}")


def _dial(address: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(address))
    except OSError:
        connection.close()
        raise
    return connection


def serve(address: str, owner: int) -> None:
    """Import torch, then fork for every connection to ``address``, until the process ``owner`` is gone."""
    import safetensors.torch  # noqa: F401
    import torch

    torch.func.vmap(torch.neg)(torch.zeros(2))  # loads what the first vmap does
    if len(os.listdir("/proc/self/task")) > 1:
        sys.exit("torch has started threads, which do not survive a fork")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        listener.settimeout(1.0)
        while _alive(owner):
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            if os.fork() == 0:
                listener.close()
                os._exit(_fork(connection))
            connection.close()
    Path(address).unlink(missing_ok=True)


def _fork(connection: socket.socket) -> int:
    """Do what ``connection`` asks for, as a process of its own would; return the exit status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background has it ignored
    connection.settimeout(None)
    size, files, _, _ = socket.recv_fds(connection, 8, 3)
    with connection.makefile("rb") as stream:
        request = json.loads(stream.read(int.from_bytes(size, "big")))
    for place, file in enumerate(files):
        os.dup2(file, place)
        os.close(file)
    for stream in sys.stdout, sys.stderr:
        stream.reconfigure(line_buffering=True)  # they write to descriptors 1 and 2, which are the job's from here on
    connection.sendall(f"{os.getpid()}\n".encode())
    threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
    _take(request)
    os.environ.clear()
    os.environ.update(request["environ"])
    os.environ.pop(VARIABLE, None)
    sys.path[:] = request["path"]
    for name in [name for name in sys.modules if name.partition(".")[0] == "flatfed"]:
        del sys.modules[name]
    status = _main(request["arguments"])
    sys.stdout.flush()
    sys.stderr.flush()
    connection.sendall(f"{status}\n".encode())
    return status


def _main(arguments: list[str]) -> int:
    """Return the exit status of the command line; an exception is printed, as the interpreter would."""
    try:
        sys.argv[1:] = arguments
        runpy.run_module("flatfed", run_name="__main__")
        return 0
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1


def _end_with(connection: socket.socket) -> None:
    """End this process when the job that asked for it is gone, however it went."""
    with contextlib.suppress(OSError):
        connection.recv(1)
    os._exit(1)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
