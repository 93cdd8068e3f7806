"""Peak memory of FedSMOO's CIFAR-10 set-up (ResNet-18, ten clients a round), by the number of all clients; JSON.

    python benchmarks/footprint.py [--clients 100 200] [--device cpu] [--threads 1]

For each number, a process trains two rounds of two local steps, evaluates and writes a checkpoint. All clients' state
is allocated first, as after many rounds. Needs torch, numpy and safetensors only.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "benchmarks")]

import torch
from workloads import WORKLOADS, Workload

from flatfed.engine.job import assembly
from flatfed.engine.job.checkpoint import Checkpoint
from flatfed.engine.job.inputs import Identity
from flatfed.engine.job.machine import machine, pick_device, set_up
from flatfed.engine.memory import available

ALGORITHM, ROUNDS, STEPS = "fedsmoo", 2, 2


def measure(workload: Workload, device: torch.device, threads: int) -> dict[str, Any]:
    """Return bytes at the peak of this process, and seconds."""
    began, free = time.monotonic(), available.available()
    set_up(threads)
    changes = {"rounds": ROUNDS, "evaluation": {"every": ROUNDS, "sets": ["test"], "batch_size": 1000}}
    spec = workload.description(ALGORITHM, **changes)
    run = assembly.simulation(spec, *workload.data(), device, spec["executor"][device.type])
    for values in run.state.store.values():
        values.zero_()
    for _ in range(ROUNDS):
        run.advance()
    with tempfile.TemporaryDirectory(dir=".", prefix=".footprint-") as folder:
        written = Checkpoint(Path(folder), Identity(*["footprint"] * 3, versions={})).write(run, {})
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    cuda = device.type == "cuda"
    return {
        "workload": workload.name,
        "algorithm": ALGORITHM,
        "clients": workload.total,
        "clients_of_a_round": workload.active,
        "local_steps": workload.steps,
        "row": run.layout.size,
        "executor": run.executor.name,
        "rows": run.row_limit,
        "client_state": run.state.home,
        "free_memory_bytes": free,
        "peak_memory_bytes": peak,
        "peak_device_memory_bytes": torch.cuda.max_memory_allocated(device) if cuda else None,
        "client_state_bytes": run.state.row_bytes() * run.client_count,
        "checkpoint_bytes": written,
        "seconds": round(time.monotonic() - began, 1),
        **machine(device, threads),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[100, 200])
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        workload = WORKLOADS["W1"].but(total=options.clients[0], steps=STEPS)
        print(json.dumps(measure(workload, pick_device(options.device), options.threads)))
        return
    reports = []
    for count in options.clients:
        command = [sys.executable, __file__, "--one", "--clients", str(count)]
        command += ["--device", options.device, "--threads", str(options.threads)]
        reports.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))
    print(json.dumps(reports, indent=1))


if __name__ == "__main__":
    main()
