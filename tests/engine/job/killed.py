"""Kills a training at seeded moments and resumes it; a process of its own for test_interruption.py.

``python killed.py RUN.json FOLDER SEED``: the run, the folder with its data, the seed of the moments. Prints a JSON
list with a record for each moment. Every training is a fork of this process, which imports torch once.
"""

import contextlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import torch

from flatfed import files
from flatfed.engine.job import checkpoint
from flatfed.engine.job.train import train
from flatfed.runs.run_config import RunConfig

BY_TIME, BY_STEP = 12, 8  # moments of each kind; those of the second are inside a checkpoint's write
KINDS = ["seconds"] * BY_TIME + ["steps"] * BY_STEP


class Watched:
    """The checkpoint's writes, three ``steps`` a file: half of it, all, its name. SIGKILL after step ``last``."""

    def __init__(self, last: float):
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
        if self.steps > self.last:
            os.kill(os.getpid(), signal.SIGKILL)


def train_to_end(config: RunConfig, out: Path, kind: str = "none", limit: float = 0.0) -> None:
    """Train; the kernel ends the process after ``limit`` seconds of its processor time, or steps of writes."""
    if kind == "seconds":
        signal.setitimer(signal.ITIMER_PROF, limit)
    watched, began = Watched(limit if kind == "steps" else float("inf")), time.process_time()
    train(config, "data", "partition.npz", out, device="cpu")
    Path("taken").write_text(json.dumps({"seconds": time.process_time() - began, "steps": watched.steps}))


def forked(*arguments) -> int:
    """Call :func:`train_to_end` in a fork; return its status."""
    process = multiprocessing.get_context("fork").Process(target=train_to_end, args=arguments)
    process.start()
    process.join()
    return process.exitcode


def main(run: str, folder: str, seed: str) -> None:
    torch.set_num_threads(1)
    os.chdir(folder)
    config = RunConfig(**json.loads(Path(run).read_text()))
    draw = random.Random(f"{seed} {config.algorithm}")
    for out in ("first", "whole"):  # the first loads what is loaded lazily
        forked(config, out)
    taken, records = json.loads(Path("taken").read_text()), []
    for number, kind in enumerate(KINDS):
        out, status, limit = Path(f"killed{number}"), 0, taken[kind] * draw.uniform(0.02, 0.95)
        while status == 0:
            shutil.rmtree(out, ignore_errors=True)  # it had ended before the moment, which is now earlier
            status = forked(config, out, kind, limit)
            limit *= 0.8
        manifest, record = out / checkpoint.NAME, out / "run.json"
        resumable = json.loads(manifest.read_text())["simulation"]["round"] if manifest.exists() else None
        about = {"kind": kind, "status": status, "round": resumable, "finished": record.exists()}
        about["left"] = sorted(path.name for path in manifest.parent.glob("*"))
        about["ended"] = forked(config, out)
        about["same"] = (out / "model.safetensors").read_bytes() == Path("whole/model.safetensors").read_bytes()
        about["files"] = sorted(path.name for path in out.iterdir())
        about["sessions"] = [session["from_round"] for session in json.loads(record.read_text())["sessions"]]
        records.append(about)
    print(json.dumps(records))


if __name__ == "__main__":
    main(*sys.argv[1:])
