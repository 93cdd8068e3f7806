"""Seconds of a communication round, compared with plain PyTorch; JSON.

    python benchmarks/rounds.py W3 --device cpu --threads 1 --out results/rounds.json
    python benchmarks/rounds.py all --device cuda --budget 540 --out rounds-cuda.json

Workloads (workloads.py): W1 is FedSMOO's CIFAR-10 set-up, W2 the CNNs, W3 the digits; ``scaling`` varies clients
and models, without yardsticks (yardsticks.py); ``all`` is everything.

All contenders take turns in one process, a round each, without evaluation. ``ratio`` is the median over the turns of a
yardstick's seconds over FlatFed's; seconds of yardsticks with fewer clients are scaled up. Pixels are random. The same
command continues a file of ``--out``. Needs torch, numpy and safetensors only.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import sys
import time
import traceback
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "benchmarks")]

import torch
from contest import Contest
from phases import peaks
from workloads import ALGORITHMS, WORKLOADS, Workload

from flatfed.engine.executors import EXECUTORS
from flatfed.engine.job.machine import machine, pick_device, set_up
from flatfed.engine.precision import STATE_DTYPES
from flatfed.files import write_whole

SCALED = ("fedavg", "fedsmoo")  # the least and the most work and state


class Bench:
    """A session of measurements; ``report`` is written to ``options.out`` after every row."""

    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.device = pick_device(options.device)
        self.began = time.monotonic()
        set_up(options.threads)
        cuda = self.device.type == "cuda"
        wait = torch.cuda.synchronize if cuda else lambda: None
        side, numbers = (8192, 1 << 28) if cuda else (2048, 1 << 26)
        self.contest = Contest(
            self.device,
            wait,
            options.executor or (list(EXECUTORS) if cuda else []),
            options.rounds,
            options.yardstick_clients,
            peaks(self.device, wait, side, numbers, options.precision),
            options.precision,
        )
        out = options.out
        self.report = json.loads(Path(out).read_text()) if out and Path(out).exists() else {"sessions": [], "rows": []}
        self.report["unfinished"] = 0
        self.session: int | None = None  # index in the report, after the first row

    def _begun(self) -> int:
        """Add the machine and the options to the report; return the index of the session."""
        session = {
            **machine(self.device, self.options.threads),
            "cores": os.cpu_count(),
            "cpu": _cpu(),
            "options": {key: value for key, value in vars(self.options).items() if key != "out"},
            "peak": self.contest.peak,
        }
        self.report["sessions"].append(session)
        return len(self.report["sessions"]) - 1

    def row(self, kind: str, workload: Workload, algorithm: str) -> None:
        """Measure a new row, if time is left, and write the report."""
        key = {
            "kind": kind,
            "workload": workload.name,
            "algorithm": algorithm,
            "device": self.device.type,
            "precision": self.options.precision,
            "threads": self.options.threads,
            "model": workload.model,
            "clients": workload.active,
            "total": workload.total,
            "steps": workload.steps,
            "batch": workload.batch,
        }
        if any(key.items() <= row.items() for row in self.report["rows"]):
            return
        if self.options.budget is not None and time.monotonic() - self.began > self.options.budget:
            self.report["unfinished"] += 1
            return
        if self.session is None:
            self.session = self._begun()
        row = {**key, "what": workload.what, "changed": workload.changed, "session": self.session}
        row |= self.contest.measure(kind, workload, algorithm)
        gc.collect()  # clocked simulations refer to themselves, and the next row needs their memory
        self.report["rows"].append(row)
        self.write()
        took = {name: f"{values['median']:.4f}" for name, values in row["seconds"].items()}
        print(workload.name, algorithm, workload.changed or "", took, row.get("ratio", ""), file=sys.stderr, flush=True)

    def write(self) -> None:
        if self.options.out:
            with write_whole(self.options.out, "w") as file:
                json.dump(self.report, file, indent=1)


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def scaling(cuda: bool) -> list[Workload]:
    """Return the workloads of ``scaling``; larger ones on a GPU."""
    small, large = WORKLOADS["W3-10"], WORKLOADS["W2-32"]
    workloads = [small.but(clients=count) for count in (1, 3, 10, 30, 100)]
    workloads += [small.but(total=total) for total in (1000, 10_000)]
    if cuda:
        workloads += [large.but(clients=count) for count in (1, 10, 100)]
        workloads += [large.but(total=10_000), WORKLOADS["W1"].but(clients=1), WORKLOADS["W1"].but(clients=100)]
    for model, choices, shape in (
        ("cnn_tiny", {}, (3, 32, 32)),
        ("cnn", {"pooling": "each", "dropout1": 0.0, "dropout2": 0.0}, (3, 32, 32)),
        ("cnn", {"dropout1": 0.0, "dropout2": 0.0}, (3, 32, 32)),
        ("vgg11_gn", {}, (3, 32, 32)),
        ("resnet18_gn", WORKLOADS["W1"].options, (3, 32, 32)),
    ):
        pooling = f" pooling {choices['pooling']}" if "pooling" in choices else ""
        sized = replace(large, name=f"{model}{pooling}", model=model, options=choices, shape=shape)
        workloads.append(sized if cuda else sized.but(clients=2, steps=2))
    return workloads


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="+", help=f"of {', '.join(WORKLOADS)}, their beginnings, scaling, all")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", default="float32", choices=list(STATE_DTYPES), help="of FlatFed")
    parser.add_argument("--rounds", type=int, default=5, help="measured turns")
    parser.add_argument("--algorithms", nargs="+", default=list(ALGORITHMS), choices=list(ALGORITHMS))
    parser.add_argument("--executor", nargs="+", choices=list(EXECUTORS), help="default: all on a GPU")
    parser.add_argument("--clients", type=int, help="clients a round")
    parser.add_argument("--steps", type=int, help="local steps")
    parser.add_argument("--yardstick-clients", type=int, help="clients of the yardsticks")
    parser.add_argument("--budget", type=float, help="seconds after which no new row begins")
    parser.add_argument("--out", help="file of the report (default: standard output)")
    options = parser.parse_args(arguments)
    requested = [*WORKLOADS, "scaling"] if "all" in options.workloads else options.workloads
    rows: list[tuple[str, Workload]] = []
    for name in requested:
        chosen = [WORKLOADS[name]] if name in WORKLOADS else [w for w in WORKLOADS.values() if w.name.startswith(name)]
        if name == "scaling":
            rows += [("scaling", workload) for workload in scaling(pick_device(options.device).type == "cuda")]
        elif not chosen:
            parser.error(f"no workload {name!r}; known: {', '.join(WORKLOADS)}, scaling, all")
        rows += [("round", workload.but(clients=options.clients, steps=options.steps)) for workload in chosen]
    bench = Bench(options)
    failures = 0
    for kind, workload in rows:
        for algorithm in options.algorithms if kind == "round" else SCALED:
            try:
                bench.row(kind, workload, algorithm)
            except Exception:  # measure the other rows
                traceback.print_exc()
                failures += 1
    if bench.report["unfinished"]:
        print(f"{bench.report['unfinished']} rows remain: the same command continues", file=sys.stderr)
    bench.write()
    if not options.out:
        print(json.dumps(bench.report, indent=1))
    raise SystemExit(1 if failures else 0)


if __name__ == "__main__":
    main()
