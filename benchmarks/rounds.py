"""Seconds of a communication round: ours, and what plain PyTorch code takes for the same work; JSON.

    python benchmarks/rounds.py W3 --device cpu --threads 1 --out results/rounds.json
    python benchmarks/rounds.py all --device cuda --budget 540 --out rounds-cuda.json

Workloads (benchmarks/workloads.py) go by the beginning of their name: W1 is FedSMOO's CIFAR-10 set-up, W2 the CNNs, W3
the digits; ``all`` is all of them and ``scaling``, which has no yardsticks: clients per round, clients in all, sizes of
models, seeds that train together (``alone``: one after the other). Yardsticks (benchmarks/yardsticks.py): ``loader`` is
an nn.Module fed by a DataLoader, one client after another; ``resident`` the same on data that lie on the device; with
``--precision bfloat16``, ``autocast`` is that in torch's own way of bfloat16.

All contenders take turns in one process, a round each; the first turn is to warm up. ``seconds`` of a round are without
evaluation; ``ratio`` is the median over turns of a yardstick's seconds over ours. Where yardsticks train fewer clients
than ours (``--yardstick-clients``), their seconds are scaled up: they train one after another. Pixels are made up.
Rows that the file of ``--out`` has already are not measured again, and after ``--budget`` seconds no new one is begun:
the same command goes on. Needs torch, numpy and safetensors only.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import subprocess
import sys
import time
import traceback
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "benchmarks")]

import torch  # noqa: E402
from contest import Contest  # noqa: E402
from phases import peaks  # noqa: E402
from workloads import ALGORITHMS, WORKLOADS, Workload  # noqa: E402

from flatfed.engine.executors import EXECUTORS  # noqa: E402
from flatfed.engine.job.machine import machine, pick_device, set_up  # noqa: E402
from flatfed.engine.precision import STATE_DTYPES  # noqa: E402
from flatfed.files import write_whole  # noqa: E402

SCALED = ("fedavg", "fedsmoo")  # algorithms of ``scaling``: the least and the most of work and state


class Bench:
    """One session of measurements on ``device``; ``report`` is what is written to ``options.out`` after every row."""

    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.device = pick_device(options.device)
        self.began = time.monotonic()
        set_up(options.threads)
        cuda = self.device.type == "cuda"
        wait = torch.cuda.synchronize if cuda else lambda: None
        side, numbers = (8192, 1 << 28) if cuda else (2048, 1 << 26)
        if options.quick:
            side, numbers = 256, 1 << 16
        self.contest = Contest(
            self.device,
            wait,
            options.executor or (list(EXECUTORS) if cuda else []),
            options.rounds,
            options.yardstick_clients,
            options.workers,
            peaks(self.device, wait, side, numbers, options.precision),
            options.precision,
        )
        out = options.out
        self.report = json.loads(Path(out).read_text()) if out and Path(out).exists() else {"sessions": [], "rows": []}
        self.report["unfinished"] = 0
        self.session: int | None = None  # where the first row that is measured puts it

    def _begun(self) -> int:
        """Put what this session measures on into the report; return its place there."""
        found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
        about = {
            **machine(self.device, self.options.threads),
            "cores": os.cpu_count(),
            "cpu": _cpu(),
            "commit": found.stdout.strip() or None,
            "options": {key: value for key, value in vars(self.options).items() if key != "out"},
            "peak": self.contest.peak,
        }
        self.report["sessions"].append(about)
        return len(self.report["sessions"]) - 1

    def row(self, kind: str, workload: Workload, algorithm: str) -> None:
        """Measure one row, unless it is there or time is up, and write the report."""
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
            "workers": self.options.workers,
            "seeds": workload.seeds,
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
        gc.collect()  # simulations under a clock refer to themselves; the next row needs their memory
        self.report["rows"].append(row)
        self.write()
        took = {name: f"{one['median']:.4f}" for name, one in row["seconds"].items()}
        print(workload.name, algorithm, workload.changed or "", took, row.get("ratio", ""), file=sys.stderr, flush=True)

    def write(self) -> None:
        """Write the report to its file, whole."""
        if self.options.out:
            with write_whole(self.options.out, "w") as file:
                json.dump(self.report, file, indent=1)


def _cpu() -> str:
    """Return the processor's name, where the system tells."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def scaling(cuda: bool) -> list[tuple[str, Workload]]:
    """Return kinds and workloads of ``scaling``: the digits' on a CPU; on a GPU the CNN's and the paper's, too."""
    small, large = WORKLOADS["W3-10"], WORKLOADS["W2-32"]
    found = [small.but(clients=count) for count in (1, 3, 10, 30, 100)]
    found += [small.but(total=total) for total in (1000, 10_000)]
    if cuda:
        found += [large.but(clients=count) for count in (1, 10, 100)]
        found += [large.but(total=10_000), WORKLOADS["W1"].but(clients=1), WORKLOADS["W1"].but(clients=100)]
    for model, choices, shape in (
        ("cnn_tiny", {}, (3, 32, 32)),
        ("cnn", {"pooling": "each", "dropout1": 0.0, "dropout2": 0.0}, (3, 32, 32)),
        ("cnn", {"dropout1": 0.0, "dropout2": 0.0}, (3, 32, 32)),
        ("vgg11_gn", {}, (3, 32, 32)),
        ("resnet18_gn", WORKLOADS["W1"].options, (3, 32, 32)),
    ):
        pooling = f" pooling {choices['pooling']}" if "pooling" in choices else ""
        sized = replace(large, name=f"{model}{pooling}", model=model, options=choices, shape=shape)
        found.append(sized if cuda else sized.but(clients=2, steps=2))
    seeds = [replace(small, seeds=count) for count in (2, 4, 8)]
    seeds += [replace(large, seeds=count) for count in (2, 4)] if cuda else []
    return [("scaling", one) for one in found] + [("seeds", one) for one in seeds]


def main(arguments: list[str] | None = None) -> None:
    """Parse the arguments, measure, write or print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="+", help=f"of {', '.join(WORKLOADS)}, their beginnings, scaling, all")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", default="float32", choices=list(STATE_DTYPES), help="that of ours")
    parser.add_argument("--rounds", type=int, default=5, help="turns that are measured")
    parser.add_argument("--algorithms", nargs="+", default=list(ALGORITHMS), choices=list(ALGORITHMS))
    parser.add_argument(
        "--executor", nargs="+", choices=list(EXECUTORS), help="ours; by default the protocols' on a CPU"
    )
    parser.add_argument("--clients", type=int, help="clients a round, in place of the workload's")
    parser.add_argument("--steps", type=int, help="local steps, in place of the workload's")
    parser.add_argument("--yardstick-clients", type=int, help="clients that yardsticks train, scaled up; default: all")
    parser.add_argument("--workers", type=int, default=0, help="processes of the data loader")
    parser.add_argument("--budget", type=float, help="seconds after which no new row is begun")
    parser.add_argument(
        "--quick", action="store_true", help="small matrices for the machine's peaks, to try things out"
    )
    parser.add_argument("--out", help="file of the report; standard output without it")
    options = parser.parse_args(arguments)
    wanted = [*WORKLOADS, "scaling"] if "all" in options.workloads else options.workloads
    rows: list[tuple[str, Workload]] = []
    for name in wanted:
        chosen = [WORKLOADS[name]] if name in WORKLOADS else [w for w in WORKLOADS.values() if w.name.startswith(name)]
        if name == "scaling":
            rows += scaling(pick_device(options.device).type == "cuda")
        elif not chosen:
            parser.error(f"no workload {name!r}; there are {', '.join(WORKLOADS)}, scaling and all")
        rows += [("round", one.but(clients=options.clients, steps=options.steps)) for one in chosen]
    bench = Bench(options)
    broken = 0
    for kind, workload in rows:
        for algorithm in options.algorithms if kind == "round" else SCALED:
            try:
                bench.row(kind, workload, algorithm)
            except Exception:  # the other rows of a machine that is lent for minutes are not to be lost
                traceback.print_exc()
                broken += 1
    if bench.report["unfinished"]:
        print(f"{bench.report['unfinished']} rows are left: the same command goes on", file=sys.stderr)
    bench.write()
    if not options.out:
        print(json.dumps(bench.report, indent=1))
    raise SystemExit(1 if broken else 0)


if __name__ == "__main__":
    main()
