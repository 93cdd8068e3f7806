"""Seconds and peak memory of one round of FedSMOO's CIFAR-10 set-up (ResNet-18, 100 clients, 50 steps of 50); JSON.

    python benchmarks/paper_round.py --dataset resources/cifar10 [--threads 2] [--device cpu] [fedavg fedsmoo ...]
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

from flatfed import experiment
from flatfed.data import partition
from flatfed.experiment import run_specs

PROTOCOL, SPLIT, SEED = "fedsmoo-cifar10", "dir0.6-100", 1


def measure(algorithm: str, options: argparse.Namespace, folder: Path) -> dict:
    """Train one round of ``algorithm`` in another process; return values of its run.json."""
    spec = run_specs.run(experiment.load(ROOT), "paper", PROTOCOL, SPLIT, algorithm, SEED)
    description = {**spec.description, "rounds": 1}
    partition_file = folder / "partition.npz"
    if not partition_file.exists():
        partition.make({**description["partition"], "seed": SEED}, options.dataset, partition_file)
    out = folder / algorithm
    command = [sys.executable, "-m", "flatfed", "train", "--run", json.dumps(description), "--out", str(out)]
    command += ["--dataset", options.dataset, "--partition", str(partition_file)]
    command += ["--device", options.device, "--threads", str(options.threads)]
    subprocess.run(command, check=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT / "src")})
    record = json.loads((out / "run.json").read_text())
    lines = (out / "metrics.csv").read_text().splitlines()
    clients = dict(zip(lines[0].split(","), lines[1].split(","), strict=True))["clients"]
    keys = ("seconds_training", "seconds_evaluation", "peak_memory_bytes", "peak_device_memory_bytes", "executor")
    return {"algorithm": algorithm, "clients": int(clients), **{key: record[key] for key in (*keys, "host", "threads")}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithms", nargs="*", default=["fedavg", "fedsmoo"])
    parser.add_argument("--dataset", required=True, help="folder of `flatfed fetch`")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    options.dataset = str(Path(options.dataset).resolve())
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps([measure(name, options, Path(folder)) for name in options.algorithms], indent=1))


if __name__ == "__main__":
    main()
