"""Shows that two versions of FlatFed train the same bytes, and records it: ``make same-bytes AGAINST=<commit>``.

Trains a few rounds of runs that together have every algorithm by both executors, and every protocol, deal, topology and
evaluation of the tables and figures, at preview scale; once by the code of the commit, once by that of this folder.
Models must be equal byte for byte, metrics.csv digit for digit but for the seconds. Then the digest of what all
trainings share is added to src/flatfed/same_bytes.json beside that of the commit: runs that it finished are then those
that this code would make, and are not made again.

What it cannot show is what no chosen run does, and other kinds of CPU: read the change first.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from flatfed import algorithms, experiment  # noqa: E402
from flatfed.experiment import Experiment, Run, scales  # noqa: E402
from flatfed.runs import provenance  # noqa: E402

EXECUTORS = ("sequential", "stacked")
ROUNDS = 3
#: Where algorithms train that no table has.
HOME = "fedsmoo-cifar10", "dir0.6-100"
#: What no preview has, on FedSMOO's own set-up: other models, augmentation, numbers of half the length.
CHANGES: tuple[dict[str, Any], ...] = (
    {"augmentation": "crop_flip_half", "model": {"name": "resnet18_gn", "options": {"stem": "imagenet", "groups": 2}}},
    {"model": {"name": "cnn", "options": {"pooling": "last", "dropout1": 0.25, "dropout2": 0.5}}},
    {"precision": "bfloat16", "emulate_bfloat16": True},
)


def features(run: Run) -> set[str]:
    """Return what a run covers: its algorithm with its choices, and kinds of all else; numbers are left out."""
    about, deal = run.description, run.description["partition"]
    update = about["update"]
    parts = {
        "algorithm": update["name"],
        **{f"{update['name']}.{key}": value for key, value in update["params"].items() if isinstance(value, str)},
        **{key: about[key] for key in ("model", "augmentation", "precision")},
        **{f"deal.{key}": deal.get(key) for key in ("scheme", "replacement", "sampler", "balanced", "assignment")},
        **{f"deals {key}": key in deal for key in ("images_of", "client_test")},
        "sampling": about["sampling"]["scheme"],
        "topology": (about.get("topology") or {}).get("graph"),
        "evaluation": about["evaluation"]["sets"],
        **{key: key in about for key in ("probe", "local_steps", "weights")},
    }
    return {f"{key} {json.dumps(value, sort_keys=True)}" for key, value in parts.items()}


def parameters(src: Path) -> dict[str, list[str]]:
    """Return the hyper-parameters of every algorithm as the code under ``src`` has them."""
    code = "import json; from flatfed import algorithms as a; "
    code += "print(json.dumps({name: list(a.load(name).parameters()) for name in a.names()}))"
    environment = {**os.environ, "PYTHONPATH": str(src)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def as_then(description: dict[str, Any], had: dict[str, list[str]]) -> dict[str, Any] | None:
    """Return ``description`` for code whose algorithms ``had`` these parameters; None where it sets one that is new.

    A new parameter's default is what the code did that had no such parameter.
    """
    update = description["update"]
    declared = algorithms.load(update["name"]).parameters()
    new = {key: value for key, value in update["params"].items() if key not in had.get(update["name"], [])}
    if any(value != declared[key].default for key, value in new.items()):
        return None
    kept = {key: value for key, value in update["params"].items() if key not in new}
    return {**description, "update": {**update, "params": kept}}


def chosen(known: Experiment, had: dict[str, list[str]]) -> list[Run]:
    """Return runs of the tables and figures that together cover what all of them do, few of them.

    Those are left out that code whose algorithms ``had`` these parameters cannot train.
    """
    there = scales.every(known, "preview")
    every = {run.path: run for table, columns in there.tables for run in known.table_runs("preview", table, columns)}
    for name in there.figures:
        every |= known.figure("preview", name).runs
    every = {path: run for path, run in every.items() if as_then(run.description, had)}
    wanted = {path: features(run) for path, run in every.items() if run.seed == 1}
    left, found = set().union(*wanted.values()), []
    while left:
        best = max(wanted, key=lambda path: (len(wanted[path] & left), path))
        left -= wanted[best]
        found.append(every[best])
    shown = {run.description["update"]["name"] for run in found}
    return [*found, *(known.run("preview", *HOME, name, 1) for name in algorithms.names() if name not in shown)]


def trained(src: Path, run: dict[str, Any], files: tuple[Path, Path], out: Path) -> tuple[bytes, list[dict[str, str]]]:
    """Return model and lines of a run that the code under ``src`` trains."""
    command = [sys.executable, "-m", "flatfed", "train", "--run", json.dumps(run), "--dataset", str(files[0])]
    command += ["--partition", str(files[1]), "--out", str(out), "--device", "cpu"]
    environment = {**os.environ, "PYTHONPATH": str(src), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{src}: {done.stderr[-2000:]}")
    with open(out / "metrics.csv", newline="", encoding="utf-8") as file:
        lines = [{key: value for key, value in line.items() if key != "seconds"} for line in csv.DictReader(file)]
    return (out / "model.safetensors").read_bytes(), lines


def differing(was: Path, now: Path, folder: Path) -> tuple[int, list[str]]:
    """Return how many runs were trained by the code under ``was`` and ``now``, and those that differ."""
    from flatfed.data import partition, sources

    known, had = experiment.load(ROOT), parameters(was)
    work = []
    own = known.run("preview", *HOME, "fedsmoo", 1)
    every = [(run, {}) for run in chosen(known, had)] + [(own, change) for change in CHANGES]
    for place, (run, change) in enumerate(every):
        data, dealt = folder / run.dataset, folder / f"{place}.npz"
        if not data.exists():
            sources.fetch(known.dataset_spec(run.dataset), data)
        spec = known.partition_spec("preview", run.protocol, run.split, run.seed)
        partition.make(spec, data, dealt)
        for executor in EXECUTORS:
            description = {
                **run.description,
                **change,
                "rounds": ROUNDS,
                "executor": dict.fromkeys(("cpu", "cuda"), executor),
            }
            name = ", ".join([run.path, executor, *map(str, change.values())])
            work.append((name, description, (data, dealt), folder / str(place) / executor))

    def same(item: tuple[str, dict[str, Any], tuple[Path, Path], Path]) -> str:
        name, description, files, out = item
        then = trained(was, as_then(description, had), files, out / "was")
        equal = then == trained(now, description, files, out / "now")
        print(f"{'same' if equal else 'DIFFERS':8} {name}", flush=True)
        return "" if equal else name

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return len(work), list(filter(None, pool.map(same, work)))


def recorded(
    was: str, files: dict[str, str], now: str, listed: list[dict[str, Any]], moved: dict[str, str] | None = None
) -> list[dict[str, Any]]:
    """Return the list with digest ``now`` beside ``was``, that of ``files``, each of what all trainings share.

    ``moved``: digest of an algorithm's own file -> what it was, where it has changed.
    """
    if not any(was in group["digests"] for group in listed):
        listed = [*listed, {"digests": [was], "files": files}]
    group = next(group for group in listed if was in group["digests"])
    group = {**group, "digests": list(dict.fromkeys([*group["digests"], now]))}
    if moved:
        first = group.get("algorithms", {})
        group["algorithms"] = {**first, **{digest: first.get(old, old) for digest, old in moved.items()}}
    return [group if was in each["digests"] else each for each in listed]


def shared(src: Path) -> tuple[str, dict[str, str], dict[str, str]]:
    """Return the digest of what all trainings share, those of its files, and those of the algorithms' own files.

    They are those of the code under ``src``.
    """
    code = "import json\nfrom flatfed import algorithms\n"
    code += "from flatfed.runs.provenance import SHARED, SRC, code_digest, files\n"
    code += "every = files(SRC, tuple(f'flatfed.algorithms.{name}' for name in algorithms.names()))\n"
    code += "own = {module: digest for module, digest in every.items() if module not in files(SRC, SHARED)}\n"
    code += "print(json.dumps([code_digest(SRC, SHARED), files(SRC, SHARED), own]))"
    environment = {**os.environ, "PYTHONPATH": str(src)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return tuple(json.loads(done.stdout))


def main() -> None:
    """Compare with a commit, record that it is the same."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("against", metavar="COMMIT", help="the commit that finished the runs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(
            ["git", "-C", str(ROOT), "archive", options.against, "src"], check=True, capture_output=True
        )
        subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
        was, now = Path(folder, "src"), ROOT / "src"
        (before, files, own_before), (after, _, own) = shared(was), shared(now)
        if before == after:
            sys.exit("what all trainings share has the same digest: there is nothing to show")
        count, different = differing(was, now, Path(folder))
    if different:
        sys.exit(f"{len(different)} of {count} differ; nothing is recorded")
    moved = {digest: own_before[name] for name, digest in own.items() if own_before.get(name, digest) != digest}
    listed = recorded(before, files, after, json.loads(provenance.SAME_BYTES.read_text(encoding="utf-8")), moved)
    provenance.SAME_BYTES.write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    print(f"{count} runs are the same byte for byte; recorded in {provenance.SAME_BYTES.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
