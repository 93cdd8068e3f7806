"""A server that imports torch once and forks for each training job: the import takes longer than a short job.

FLATFED_WARM is ``<socket address>:<pid>``. The first job starts the server, which ends with the process ``pid``
(Snakemake). A fork uses the job's arguments, folder, environment and files, but the first job's umask, priority, limits
and cores, and imports flatfed from disk. Without the variable or the server, jobs are ordinary processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading

VARIABLE = "FLATFED_WARM"
COMMANDS = ("train", "hessian", "surface", "clients")  # the commands that import torch
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def run(arguments: list[str]) -> int | None:
    """Run the command line ``arguments`` in a fork of the server; return its exit status, None without a server.

    Forwards SIGINT, SIGTERM and, unless it is ignored, SIGHUP, and waits for the end of the fork.
    """
    if not arguments or arguments[0] not in COMMANDS:
        return None
    request = {"arguments": arguments, "environ": dict(os.environ), "path": sys.path, "cwd": os.getcwd()}
    try:
        connection = _connect(*request["environ"].pop(VARIABLE).rsplit(":", 1))
        socket.send_fds(connection, [b"\n"], [0, 1, 2])
        connection.sendall(f"{json.dumps(request)}\n".encode())
        answers = connection.makefile("r")
        child, signals = int(answers.readline()), []
    except (OSError, ValueError):  # no server, or it ended before it answered
        return None

    def forward(number: int, _: object) -> None:
        signals.append(number)
        with contextlib.suppress(ProcessLookupError):  # the fork has just ended
            os.kill(child, number)

    hangup = [] if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else [signal.SIGHUP]
    for number in (signal.SIGINT, signal.SIGTERM, *hangup):
        signal.signal(number, forward)
    status = answers.readline()
    if not status and not signals:
        print("flatfed: the process ended without a status: killed, or out of memory", file=sys.stderr)
    return int(status or (128 + signals[-1] if signals else 1))


def _connect(address: str, owner: str) -> socket.socket:
    """Return a connection to the server at ``address``, started by the first job; OSError if there is none.

    Connections wait until the server has imported torch.
    """
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as listener:  # another job may have bound it
        listener.bind(address)
        listener.listen(64)
        quiet = {**os.environ, **dict.fromkeys(THREADS, "1")}  # threads do not survive a fork
        command, nowhere = [sys.executable, "-P", __file__, owner], subprocess.DEVNULL
        subprocess.Popen(command, env=quiet, stdin=listener, stdout=nowhere, stderr=nowhere, start_new_session=True)
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    return connection


def serve(owner: str) -> None:
    """Import torch and pydantic, then fork per connection to the socket on standard input, until ``owner`` ends."""
    import safetensors.torch  # noqa: F401
    import torch
    from pydantic import BaseModel  # noqa: F401

    torch.func.vmap(torch.neg)(torch.zeros(2))  # the first vmap imports more modules
    if len(os.listdir("/proc/self/task")) > 1:
        sys.exit("torch has started threads, which do not survive a fork")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies
    with socket.socket(fileno=0) as listener:
        listener.settimeout(1.0)
        while os.path.exists(f"/proc/{owner}"):
            with contextlib.suppress(TimeoutError), listener.accept()[0] as connection:
                if os.fork() == 0:
                    _work(connection)


def _work(connection: socket.socket) -> None:
    """Run the request of ``connection`` like an ordinary process, then end this fork."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
    for descriptor, file in enumerate(socket.recv_fds(connection, 1, 3)[1]):
        os.dup2(file, descriptor)  # also closes the listener, 0
    request = json.loads(connection.makefile().readline())
    connection.sendall(f"{os.getpid()}\n".encode())
    # End with the job.
    threading.Thread(target=lambda: connection.recv(1) or os._exit(1), daemon=True).start()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environ"])
    sys.path[:], sys.argv[1:], status = request["path"], request["arguments"], 1
    try:
        runpy.run_module("flatfed", run_name="__main__")
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    print(end="", flush=True)
    connection.sendall(f"{status}\n".encode())
    os._exit(status)


if __name__ == "__main__":
    serve(sys.argv[1])
