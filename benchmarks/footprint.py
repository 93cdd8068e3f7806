"""Peak memory of a run, by the number of all clients; JSON.

    python benchmarks/footprint.py [--workload W1] [--algorithm fedsmoo] [--clients 100 200] [--device cpu]

Two rounds of a workload (benchmarks/workloads.py; W1 is FedSMOO's CIFAR-10 set-up, ResNet-18, ten clients a round), the
second with its evaluation, then a checkpoint: what a run does again and again. Local steps are few, since a round's
memory does not depend on how many there are. Memory fills as clients take part for the first time; so all clients'
state is written to before the first round, as if all of them had. Every number of clients is a process of its own;
pixels are made up. Needs torch, numpy and safetensors only.
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

import torch  # noqa: E402
from workloads import ALGORITHMS, WORKLOADS, Workload  # noqa: E402

from flatfed.engine.job import assembly  # noqa: E402
from flatfed.engine.job.checkpoint import Checkpoint  # noqa: E402
from flatfed.engine.job.inputs import Identity  # noqa: E402
from flatfed.engine.job.machine import machine, pick_device, set_up  # noqa: E402
from flatfed.engine.memory import available  # noqa: E402

ROUNDS = 2


def measure(workload: Workload, algorithm: str, device: torch.device, threads: int) -> dict[str, Any]:
    """Return bytes at the peak of a run's rounds, evaluation and checkpoint in this process, and seconds in all."""
    began, free = time.monotonic(), available.available()
    set_up(threads)
    changes = {"rounds": ROUNDS, "evaluation": {"every": ROUNDS, "sets": ["test"], "batch_size": 1000}}
    spec = workload.description(algorithm, **changes)
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
        "algorithm": algorithm,
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
    """Parse the arguments, measure each number of clients in a process of its own, print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", default="W1", choices=list(WORKLOADS))
    parser.add_argument("--algorithm", default="fedsmoo", choices=list(ALGORITHMS))
    parser.add_argument("--clients", type=int, nargs="+", default=[100, 200])
    parser.add_argument("--steps", type=int, default=2, help="local steps of a client in a round (default: 2)")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        chosen = WORKLOADS[options.workload].but(total=options.clients[0], steps=options.steps)
        print(json.dumps(measure(chosen, options.algorithm, pick_device(options.device), options.threads)))
        return
    found = []
    for count in options.clients:
        command = [sys.executable, __file__, "--one", "--clients", str(count), "--workload", options.workload]
        command += ["--algorithm", options.algorithm, "--steps", str(options.steps)]
        command += ["--device", options.device, "--threads", str(options.threads)]
        found.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
