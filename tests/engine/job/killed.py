"""Kills a training at seeded moments and goes on from what it left; a process of its own for test_interruption.py.

``python killed.py RUN.json FOLDER SEED``: the run, the folder with its data, the seed of the moments. Prints one JSON
line: where each kill came, and whether the files that the run then ended with are those of an undisturbed one. Every
training is a fork of this process: torch is imported once, and nothing has threads that a fork would lose.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from flatfed import files
from flatfed.engine.job import checkpoint
from flatfed.engine.job.train import train
from flatfed.runs.run_config import RunConfig

BY_TIME, BY_BYTE, BY_RENAME = 12, 5, 3  # moments of each kind; those of the last two are inside a checkpoint's write


class Watched:
    """The checkpoint's own writes in this process: counted, and cut short by SIGKILL after ``limit`` of ``kind``.

    ``kind``: ``bytes``, or ``renames``, before or after every one of which a moment lies.
    """

    def __init__(self, kind: str = "", limit: int = -1):
        self.kind, self.limit = kind, limit
        self.count = {"bytes": 0, "renames": 0}
        checkpoint.write_whole = self.write_whole
        checkpoint.SHORT = float("inf")  # a slow disk skips no checkpoint

    @contextlib.contextmanager
    def write_whole(self, path: Path, mode: str = "wb"):
        with files.write_whole(path, mode) as file:
            write = file.write

            def counted(data: Any) -> int:
                content = data.encode() if isinstance(data, str) else bytes(data)
                left = self.limit - self.count["bytes"]
                if self.kind == "bytes" and left < len(content):
                    write(content[:left].decode() if isinstance(data, str) else content[:left])
                    file.flush()
                    os.kill(os.getpid(), signal.SIGKILL)
                self.count["bytes"] += len(content)
                return write(data)

            yield type("Counted", (), {"write": staticmethod(counted)})()
            self.tick()
        self.tick()

    def tick(self) -> None:
        if self.kind == "renames" and self.count["renames"] == self.limit:
            os.kill(os.getpid(), signal.SIGKILL)
        self.count["renames"] += 1


def forked(work: Callable[[], None], kill_after: float | None = None) -> tuple[int, float]:
    """Do ``work`` in a fork, killed after so many seconds of its own processor time; return how it ended, and those."""
    process = os.fork()
    if process == 0:
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                work()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    clock = (~process << 3) | 2  # that process's CPU time: what others on the machine do moves no moment
    used = 0.0
    while True:
        ended, status, resources = os.wait4(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), resources.ru_utime + resources.ru_stime
        with contextlib.suppress(OSError):
            used = time.clock_gettime(clock)
        if kill_after is not None and used >= kill_after:
            os.kill(process, signal.SIGKILL)
        time.sleep(0.0005)


def main(run: str, folder: str, seed: int) -> None:
    torch.set_num_threads(1)
    os.chdir(folder)
    config = RunConfig(**json.loads(Path(run).read_text()))
    draw = random.Random(f"{seed} {config.algorithm}")

    def job(out: str) -> None:
        train(config, "data", "partition.npz", out, device="cpu")

    def counting() -> None:
        watched = Watched()
        job("counted")
        Path("count.json").write_text(json.dumps(watched.count))

    def cut(out: str, kind: str, limit: int) -> None:
        Watched(kind, limit)
        job(out)

    forked(lambda: job("first"))  # what is loaded lazily is loaded now and takes no time of the next
    seconds = forked(lambda: job("whole"))[1]
    forked(counting)
    count = json.loads(Path("count.json").read_text())
    moments: list[tuple[str, float]] = [("seconds", seconds * draw.uniform(0.02, 0.95)) for _ in range(BY_TIME)]
    moments += [("bytes", draw.randrange(count["bytes"])) for _ in range(BY_BYTE)]
    moments += [("renames", draw.randrange(count["renames"])) for _ in range(BY_RENAME)]
    found = []
    for number, (kind, limit) in enumerate(moments):
        out = f"killed{number}"
        status = 0
        while status == 0:
            shutil.rmtree(out, ignore_errors=True)  # it was quicker than before, and had ended: earlier, then
            if kind == "seconds":
                status = forked(lambda out=out: job(out), limit)[0]
                limit *= 0.8 if status == 0 else 1
            else:
                status = forked(lambda out=out, kind=kind, limit=limit: cut(out, kind, limit))[0]
        manifest = Path(out, ".checkpoint/manifest.json")
        about = json.loads(manifest.read_text()) if manifest.exists() else None
        left = sorted(path.name for path in manifest.parent.glob("*"))
        finished = Path(out, "run.json").exists()
        ended = forked(lambda out=out: job(out))[0]
        found.append(
            {
                "kind": kind,
                "at": limit,
                "status": status,
                "left": left,
                "finished": finished,
                "round": about["simulation"]["round"] if about else None,
                "ended": ended,
                "same": Path(out, "model.safetensors").read_bytes() == Path("whole/model.safetensors").read_bytes(),
                "files": sorted(path.name for path in Path(out).iterdir()),
                "sessions": [s["from_round"] for s in json.loads(Path(out, "run.json").read_text())["sessions"]],
            }
        )
    print(json.dumps({"seconds": seconds, **count, "moments": found}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
