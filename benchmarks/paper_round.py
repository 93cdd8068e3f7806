"""Seconds and peak memory of one communication round at a paper's full setting, on this machine.

    python benchmarks/paper_round.py --dataset resources/cifar10 [--threads 2] [--device cpu] [fedavg fedsmoo ...]

Trains FedSMOO's CIFAR-10 protocol (ResNet-18 with GroupNorm, 100 clients, about ten active, 50 local steps of 50
images) for one round per algorithm, each in a process of its own, and prints JSON: training and evaluation seconds,
peak memory.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from flatfed import experiment  # noqa: E402
from flatfed.data import partition  # noqa: E402
from flatfed.experiment import run_specs  # noqa: E402

PROTOCOL, SPLIT, SEED = "fedsmoo-cifar10", "dir0.6-100", 1


def measure(algorithm: str, options: argparse.Namespace, folder: Path) -> dict:
    """Train one round of ``algorithm``; return what run.json says of it."""
    found = run_specs.run(experiment.load(ROOT), "paper", PROTOCOL, SPLIT, algorithm, SEED)
    description = {**found.description, "rounds": 1}
    dealt = folder / "partition.npz"
    if not dealt.exists():
        partition.make({**description["partition"], "seed": SEED}, options.dataset, dealt)
    out = folder / algorithm
    command = [sys.executable, "-m", "flatfed", "train", "--run", json.dumps(description), "--out", str(out)]
    command += ["--dataset", options.dataset, "--partition", str(dealt)]
    command += ["--device", options.device, "--threads", str(options.threads)]
    subprocess.run(command, check=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT / "src")})
    record = json.loads((out / "run.json").read_text())
    line = (out / "metrics.csv").read_text().splitlines()
    clients = dict(zip(line[0].split(","), line[1].split(","), strict=True))["clients"]
    keys = ("seconds_training", "seconds_evaluation", "peak_memory_bytes", "peak_device_memory_bytes", "executor")
    return {"algorithm": algorithm, "clients": int(clients), **{key: record[key] for key in (*keys, "host", "threads")}}


def main() -> None:
    """Parse the arguments, measure, print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithms", nargs="*", default=["fedavg", "fedsmoo"])
    parser.add_argument("--dataset", required=True, help="folder made by `flatfed fetch`")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    options.dataset = str(Path(options.dataset).resolve())
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps([measure(name, options, Path(folder)) for name in options.algorithms], indent=1))


if __name__ == "__main__":
    main()
