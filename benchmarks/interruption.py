"""Seconds of a checkpoint after SIGTERM: FedSMOO, ResNet-18 (100 classes), 10 % of 200 clients.

    PYTHONPATH=src python benchmarks/interruption.py --folder /scratch/new-folder

Nothing is trained. The client state (18 GB) is one row of noise in memory, written for every client. Prints bytes and
seconds of early checkpoints, of checkpoints within and after a round, of all clients, and of reading. Removes the
folder.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

from flatfed.engine.client_state import ClientState
from flatfed.engine.job.checkpoint import FOLDER, Checkpoint
from flatfed.engine.job.inputs import Identity

IDENTITY = Identity("benchmark", "benchmark", "benchmark", {})
PARAMETERS, CLIENTS, ROUNDS = 11_220_132, 200, 10


def simulation() -> SimpleNamespace:
    """Return the parts of a FedSMOO simulation that a checkpoint reads."""
    state = ClientState({"h": 1, "mu": 1}, CLIENTS, torch.float32, torch.device("cpu"), "memory")
    noise = torch.randn(PARAMETERS, generator=torch.Generator().manual_seed(1))
    state.store = {name: noise.expand(CLIENTS, PARAMETERS) for name in state.store}
    return SimpleNamespace(
        state=state,
        description={},
        server={name: noise[None] for name in ("w", "h", "s")},
        executor=SimpleNamespace(name="sequential"),
        cost=SimpleNamespace(counts={}),
        progress=dict,
        client_count=CLIENTS,
    )


def change(run: SimpleNamespace, clients: np.ndarray) -> None:
    """Mark ``clients`` as changed by a round."""
    with run.state.transaction(clients, {}, 0):
        pass


def report(occasion: str, checkpoint: Checkpoint, run: SimpleNamespace) -> None:
    """Write a checkpoint and print its clients, bytes and seconds."""
    clients, began, busy = int(run.state.changed.sum()), time.monotonic(), time.process_time()
    size = checkpoint.write(run, {})
    seconds, busy = time.monotonic() - began, time.process_time() - busy
    rate = f"{size / seconds / 1e6:.0f} MB/s, {busy:.1f} s of them computing"
    print(f"{occasion}: {clients} clients, {size / 1e9:.2f} GB in {seconds:.1f} s ({rate})", flush=True)


def measure(folder: Path) -> None:
    run, checkpoint, rng = simulation(), Checkpoint(folder, IDENTITY), np.random.default_rng(1)
    print(f"client state {2 * PARAMETERS * 4 * CLIENTS / 1e9:.1f} GB")
    in_round, after_round = 0, 0  # most changed clients at a signal
    for round_ in range(1, ROUNDS + 1):
        change(run, rng.choice(CLIENTS, CLIENTS // 10, replace=False))
        after_round = max(after_round, int(run.state.changed.sum()))
        if checkpoint.due(run, planned=False):
            report(f"written early, after round {round_}", checkpoint, run)
        in_round = max(in_round, int(run.state.changed.sum()))
    run.state.changed[:] = False
    change(run, np.arange(in_round))
    report("SIGTERM within local training, at most", checkpoint, run)
    change(run, np.arange(after_round))
    report("SIGTERM at a round's end, at most", checkpoint, run)
    change(run, np.arange(CLIENTS))
    report("all clients", checkpoint, run)
    began = time.monotonic()
    checkpoint.compact(run)
    written = sum(path.stat().st_size for path in (folder / FOLDER).iterdir())
    print(f"compacted in {time.monotonic() - began:.1f} s; on disk {written / 1e9:.2f} GB")
    began, size = time.monotonic(), 0
    with Checkpoint(folder, IDENTITY).journal.reader() as get:
        for key in checkpoint.journal.index:
            size += get(key).nbytes
    print(f"read and checked: {size / 1e9:.2f} GB in {time.monotonic() - began:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="a new folder on the disk to measure")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True)
    try:
        measure(folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
