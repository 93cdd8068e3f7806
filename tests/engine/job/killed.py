"""Kills a training at seeded moments and resumes it; a process of its own for test_interruption.py.

``python killed.py RUN.json FOLDER SEED``: the run, the folder with its data, the seed of the moments. Prints a JSON
list with a record for each moment. Every training is a fork of this process, which imports torch once.
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
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import torch

from flatfed import files
from flatfed.engine.job import checkpoint
from flatfed.engine.job.train import train
from flatfed.runs.run_config import RunConfig

BY_TIME, BY_STEP = 12, 8  # moments of each kind; those of the second are inside a checkpoint's write


class Watched:
    """The checkpoint's writes, three ``steps`` a file: half of it, all, its name. SIGKILL after step ``last``."""

    def __init__(self, last: float | None):
        self.last, self.steps = last, 0
        checkpoint.write_whole = self.write_whole
        checkpoint.SHORT = float("inf")  # a slow disk skips no checkpoint

    @contextlib.contextmanager
    def write_whole(self, path: Path, mode: str = "wb"):
        with files.write_whole(path, mode) as file:
            parts = []
            yield SimpleNamespace(write=parts.append)
            content = parts[0][:0].join(parts)
            for part in (content[: len(content) // 2], content[len(content) // 2 :]):
                file.write(part)
                file.flush()
                self.step()
        self.step()

    def step(self) -> None:
        self.steps += 1
        if self.last is not None and self.steps > self.last:
            os.kill(os.getpid(), signal.SIGKILL)


def forked(work: Callable[[], None], kill_after: float | None = None) -> tuple[int, float]:
    """Do ``work`` in a fork, killed after so many seconds of its own processor time; return its status and those."""
    process = os.fork()
    if process == 0:
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                work()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    clock, used = (~process << 3) | 2, 0.0  # that process's CPU time: other processes move no moment
    while True:
        ended, status, resources = os.wait4(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), resources.ru_utime + resources.ru_stime
        with contextlib.suppress(OSError):
            used = time.clock_gettime(clock)
        if kill_after is not None and used >= kill_after:
            os.kill(process, signal.SIGKILL)
        time.sleep(0.0005)  # between two looks at the clock


def main(run: str, folder: str, seed: str) -> None:
    torch.set_num_threads(1)
    os.chdir(folder)
    config = RunConfig(**json.loads(Path(run).read_text()))
    draw = random.Random(f"{seed} {config.algorithm}")

    def job(out: str, last: float | None = None) -> None:
        watched = Watched(last)
        train(config, "data", "partition.npz", out, device="cpu")
        Path("steps").write_text(str(watched.steps))

    forked(partial(job, "first"))  # loads what is loaded lazily
    seconds = forked(partial(job, "whole"))[1]
    steps = int(Path("steps").read_text())
    moments = [("seconds", seconds * draw.uniform(0.02, 0.95)) for _ in range(BY_TIME)]
    moments += [("steps", draw.randrange(steps)) for _ in range(BY_STEP)]
    found = []
    for number, (kind, limit) in enumerate(moments):
        out, status = Path(f"killed{number}"), 0
        while status == 0:
            shutil.rmtree(out, ignore_errors=True)  # it had ended before the moment, which is now earlier
            if kind == "seconds":
                status, _ = forked(partial(job, out), limit)
            else:
                status, _ = forked(partial(job, out, limit))
            limit *= 0.8
        manifest, record = out / checkpoint.NAME, out / "run.json"
        resumable = json.loads(manifest.read_text())["simulation"]["round"] if manifest.exists() else None
        about = {"kind": kind, "status": status, "round": resumable, "finished": record.exists()}
        about["left"] = sorted(path.name for path in manifest.parent.glob("*"))
        about["ended"], _ = forked(partial(job, out))
        about["same"] = (out / "model.safetensors").read_bytes() == Path("whole/model.safetensors").read_bytes()
        about["files"] = sorted(path.name for path in out.iterdir())
        about["sessions"] = [session["from_round"] for session in json.loads(record.read_text())["sessions"]]
        found.append(about)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
