"""Seconds that a checkpoint takes after SIGTERM: FedSMOO, ResNet-18, 200 clients, of which a round trains 10 %.

    PYTHONPATH=src python benchmarks/interruption.py --folder /scratch/somewhere

Client state (two vectors a client, 18 GB) is made up, nothing is trained; all clients' rows are the same memory, so
that it fits anywhere, but every one is written. Prints bytes and seconds of checkpoints that flatfed writes early, so
that rows do not pile up past a signal's grace; of those that SIGTERM asks for within local training and, the most that
can wait, at a round's end; of all clients' rows; and of reading them back. The folder is removed.
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

MADE_UP = Identity("made up", "made up", "made up", {})


def made_up(parameters: int, clients: int) -> SimpleNamespace:
    """Return what a checkpoint reads of a FedSMOO simulation; h and mu of every client are one row of noise."""
    cpu = torch.device("cpu")
    state = ClientState({"h": 1, "mu": 1}, clients, torch.float32, cpu, "memory")
    noise = torch.randn(parameters, generator=torch.Generator().manual_seed(1))
    state.store = {name: noise.expand(clients, parameters) for name in state.store}
    return SimpleNamespace(
        state=state,
        description={},
        server={name: noise[None] for name in ("w", "h", "s")},
        executor=SimpleNamespace(name="sequential"),
        cost=SimpleNamespace(counts={}),
        progress=dict,
        client_count=clients,
    )


def change(run: SimpleNamespace, clients: np.ndarray) -> None:
    """Note that a round changed ``clients``."""
    with run.state.transaction(clients, {}, 0):
        pass


def tell(what: str, saved: Checkpoint, run: SimpleNamespace) -> None:
    """Write a checkpoint and print its clients, bytes and seconds."""
    clients, began, busy = int(run.state.changed.sum()), time.monotonic(), time.process_time()
    size = saved.write(run, {})
    seconds, busy = time.monotonic() - began, time.process_time() - busy
    numbers = (
        f"{size / 1e9:.2f} GB in {seconds:.1f} s ({size / seconds / 1e6:.0f} MB/s, {busy:.1f} s of them computing)"
    )
    print(f"{what}: {clients} clients, {numbers}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="an empty folder on the disk to be measured")
    parser.add_argument("--parameters", type=int, default=11_220_132, help="of the model (ResNet-18, 100 classes)")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=10, help="of made-up training")
    options = parser.parse_args()
    options.folder.mkdir(parents=True)
    try:
        measure(options.folder, options.parameters, options.clients, options.rounds)
    finally:
        shutil.rmtree(options.folder)


def measure(folder: Path, parameters: int, clients: int, rounds: int) -> None:
    run = made_up(parameters, clients)
    saved = Checkpoint(folder, MADE_UP)
    draw = np.random.default_rng(1)
    print(f"client state {2 * parameters * 4 * clients / 1e9:.1f} GB")
    most, left = 0, 0
    for round_ in range(1, rounds + 1):
        change(run, draw.choice(clients, clients // 10, replace=False))
        most = max(most, int(run.state.changed.sum()))
        if saved.overdue(run):
            tell(f"written early, after round {round_}", saved, run)
        left = max(left, int(run.state.changed.sum()))
    run.state.changed[:] = False
    change(run, np.arange(left))
    tell("SIGTERM within local training, where most rows wait", saved, run)
    change(run, np.arange(most))
    tell("SIGTERM at a round's end, where most rows wait", saved, run)
    change(run, np.arange(clients))
    tell("all clients", saved, run)
    began = time.monotonic()
    saved.compact(run)
    taken = sum(path.stat().st_size for path in (folder / FOLDER).iterdir())
    print(f"brought together in {time.monotonic() - began:.1f} s; on disk {taken / 1e9:.2f} GB")
    began, size = time.monotonic(), 0
    with Checkpoint(folder, MADE_UP).journal.reader() as get:
        for key in saved.journal.index:
            size += get(key).nbytes
    print(f"read back and checked: {size / 1e9:.2f} GB in {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
