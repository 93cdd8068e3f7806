"""Pack a queue of runs for a GPU that is free for minutes, and run it there. short_gpu.sh explains the steps."""

from __future__ import annotations

import argparse
import importlib.metadata
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

FOLDER = Path(".short_gpu")
KIT, DATA, RESULTS = FOLDER / "kit", FOLDER / "data", FOLDER / "results"
PLAN, PACKAGES, PYDANTIC = KIT / "plan.json", KIT / "packages", KIT / "pydantic"  # .zip
PYTHONS = ("3.11", "3.12")  # of a GPU host
HALVES = FOLDER / "images.0.npz", FOLDER / "images.1.npz"
TALLEST = 16383  # pixels of a WebP picture
ANALYSES = {"surface": ("surface.npz", 90), "hessian": ("hessian.json", 150)}  # output, limit in seconds
MOST_RUNS = 12  # of a kit: more than fit into 15 minutes
SHORTEST = 10  # seconds: no analysis starts with less
MARGIN = 1.1  # a round with a new number of clients takes longer


def pack(options: argparse.Namespace) -> None:
    """Write settings, partitions, PyHessian and pydantic to KIT, and the images to HALVES."""
    from flatfed.commands import configuration, describe
    from flatfed.data import partition, sources
    from flatfed.runs import source_code

    experiment, runs = configuration.load(options.config), []
    shutil.rmtree(KIT, ignore_errors=True)
    for ids in read_queue(options.queue):
        if Path(published(ids, "runs"), "run.json").exists():
            print(f"{' '.join(filter(None, ids))}: is published already")
            continue
        if len(runs) == MOST_RUNS:
            break
        run = describe.run_of(experiment, f"results/{options.scale}/runs/{'/'.join(ids[:3])}/seed{ids[3]}")
        dataset = Path(run.paths.dataset(run.dataset))
        if not Path(run.manifest).exists():
            sources.fetch(experiment.catalog.dataset_spec(run.dataset).as_written(), dataset)
        if not Path(run.partition).exists():
            spec = experiment.partition_spec(run.scale, run.protocol, run.split, run.seed)
            partition.make(spec.as_written(), dataset, run.partition)
        copy(Path(run.partition), KIT / run.partition)
        options_of = partial(experiment.catalog.analysis_options, scale=run.scale, protocol=run.protocol)
        settings = {kind: options_of(kind) for kind in ANALYSES}
        # Few large batches fill a GPU. Runs of a seed share images and random vectors.
        settings["hessian"] += ["--micro-batch", "1024", "--seed", str(run.seed)]
        runs.append({"ids": ids, "config": run.config.as_json(), "partition": run.partition, "analyses": settings})
    if len({run["config"]["dataset"]["name"] for run in runs}) != 1:
        sys.exit(f"{options.queue}: needs unpublished runs, all on the same dataset")
    for file in dataset.iterdir():
        if file.name != "images.npy":
            copy(file, KIT / "dataset" / file.name)
    for file in importlib.metadata.files("pyhessian"):
        if file.suffix != ".pyc":
            copy(file.locate(), PACKAGES / file)
    pack_pydantic()
    measured = str(options.queue.with_suffix(".measured.json"))
    PLAN.write_text(json.dumps({"measured": measured, "commit": source_code.commit(), "runs": runs}, indent=1))
    write_halves(np.load(dataset / "images.npy", mmap_mode="r"))
    for path in (*HALVES, KIT):
        size = sum(file.stat().st_size for file in [path, *path.rglob("*")] if file.is_file())
        print(f"{path}: {size / 2**20:.1f} MiB")


def pack_pydantic() -> None:
    """Write pydantic and the packages that it needs to an archive, with a compiled file for each of PYTHONS."""
    requirement = f"pydantic=={importlib.metadata.version('pydantic')}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", requirement]
    command += ["--platform", "manylinux2014_x86_64"]
    with tempfile.TemporaryDirectory() as folder:
        options = [["--python-version", version, "--dest", f"{folder}/{version}"] for version in PYTHONS]
        downloads = [subprocess.Popen([*command, *of_version]) for of_version in options]
        if any([download.wait() for download in downloads]):
            sys.exit(f"pip could not download {requirement} for the Python of the GPU host, {' or '.join(PYTHONS)}")
        for wheel in Path(folder).glob("*/*.whl"):
            zipfile.ZipFile(wheel).extractall(f"{folder}/packages")
        shutil.make_archive(PYDANTIC, "zip", f"{folder}/packages")


def copy(file: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, target)


def read_queue(file: Path) -> Iterator[list[str]]:
    """Yield protocol, split, algorithm, seed and folder, "" if it has none, of each line."""
    for line in file.read_text().splitlines():
        words = line.partition("#")[0].split()
        if len(words) not in (0, 4, 5):
            sys.exit(f"{file}: {line!r}: expected a protocol, a split, an algorithm, a seed and perhaps a folder")
        if words:
            yield [*words, ""][:5]


def published(ids: list[str], kind: str) -> str:
    """Return the folder of a published run, or of its analyses."""
    protocol, split, algorithm, seed, folder = ids
    return str(Path("results/published", protocol, folder, kind, split, algorithm, f"seed{seed}"))


def write_halves(images: np.ndarray) -> None:
    """Write ``images`` (N, C, H, W) to HALVES: lossless WebP pictures, each a column of images."""
    _, channels, height, width = images.shape
    # The first is smaller, because the first call copies the kit, too.
    for path, half in zip(HALVES, np.split(images, [len(images) * 9 // 20]), strict=True):
        pictures = []
        for start in range(0, len(half), TALLEST // height):
            column = half[start : start + TALLEST // height].transpose(0, 2, 3, 1).reshape(-1, width, channels)
            file = io.BytesIO()
            Image.fromarray(column.squeeze(2) if channels == 1 else column).save(file, "WEBP", lossless=True)
            pictures.append(np.frombuffer(file.getvalue(), np.uint8))
        np.savez(path, *pictures)


def read_half(path: Path, channels: int, height: int, width: int) -> np.ndarray:
    """Return the images (n, C, H, W) of a half."""
    if not path.exists():
        sys.exit(f"{path} is missing. Copy it to this host: a new host has neither half of the images.")
    with np.load(path) as pictures:
        files = [io.BytesIO(pictures[f"arr_{index}"].tobytes()) for index in range(len(pictures.files))]
    columns = [np.asarray(Image.open(file).convert("L" if channels == 1 else "RGB")) for file in files]
    return np.concatenate(columns).reshape(-1, height, width, channels).transpose(0, 3, 1, 2)


def unpack_dataset() -> None:
    """Write the dataset folder DATA; DataError if its digest differs from the packed dataset's."""
    from flatfed.data import dataset

    shutil.copytree(KIT / "dataset", DATA, dirs_exist_ok=True)
    shape = json.loads((DATA / "dataset.json").read_text())["shape"]
    np.save(DATA / "images.npy", np.concatenate([read_half(path, *shape) for path in HALVES]))
    dataset.verify(DATA)


def queue(options: argparse.Namespace) -> None:
    """Train the runs that fit into the time, then analyse their models; write OUT/runs.tar.gz after each."""
    end = time.monotonic() + options.seconds
    unpack_dataset()
    plan, gpu = json.loads(PLAN.read_text()), gpu_name(options.device)
    file = Path(plan["measured"])
    measured = json.loads(file.read_text()) if file.exists() else {}
    os.environ["FLATFED_COMMIT"] = plan["commit"] or "unknown"
    for index, run in enumerate(plan["runs"]):
        protocol, _, algorithm, *_ = run["ids"]
        clients, rounds = run["config"]["partition"]["clients"], run["config"]["rounds"]
        kind, label = f"{gpu}, {protocol}, {clients} clients, {algorithm}", " ".join(filter(None, run["ids"]))
        if (RESULTS / published(run["ids"], "runs") / "run.json").exists():
            continue  # trained by an earlier call on this host
        last = end - options.analyses
        if kind not in measured and (seconds := measure(index, options.device, last)):
            measured[kind] = seconds
        if kind in measured:
            seconds, left = measured[kind], last - time.monotonic()
            needed = MARGIN * (seconds["start"] + rounds * seconds["round"])
            print(f"{label}: needs {needed:.0f} of {left:.0f} s: {'starts' if needed <= left else 'does not start'}")
            if needed <= left:
                measured.pop(kind)  # too short if the run does not finish
                if duration := train(run, last, options.device):
                    measured[kind] = duration
        (RESULTS / file).parent.mkdir(parents=True, exist_ok=True)
        (RESULTS / file).write_text(json.dumps(measured, indent=1) + "\n")
        write_archive(options.out)
    for run in plan["runs"]:
        analyse(run, end, options)


def measure(index: int, device: str, end: float) -> dict[str, float]:
    """Return the seconds of a round, and of the other parts of three rounds of a run; empty if time was too short."""
    began = time.monotonic()
    printed = call(end, __file__, "round", index, "--device", device)
    if printed is None:
        return {}
    seconds = float(printed)
    return {"round": seconds, "start": time.monotonic() - began - 2 * seconds}


def train(run: dict[str, Any], end: float, device: str) -> dict[str, float]:
    """Return the seconds of a round and of the start; empty if the training did not finish."""
    began, folder = time.monotonic(), RESULTS / published(run["ids"], "runs")
    words = ["-m", "flatfed", "train", "--run", json.dumps(run["config"]), "--out", folder]
    if call(end, *words, *inputs_of(run, device)) is None:
        return {}
    record = json.loads((folder / "run.json").read_text())
    return {
        "round": record["seconds"] / record["rounds_done"],
        "start": time.monotonic() - began - record["seconds"],
    }


def analyse(run: dict[str, Any], end: float, options: argparse.Namespace) -> None:
    """Compute the loss surface and the Hessian of a trained run, within their limits."""
    folder = RESULTS / published(run["ids"], "runs")
    for command, (output, limit) in ANALYSES.items():
        out, last = RESULTS / published(run["ids"], "analysis") / output, min(end, time.monotonic() + limit)
        if (folder / "run.json").exists() and not out.exists() and last - time.monotonic() > SHORTEST:
            words = ["-m", "flatfed", command, folder, "--out", out, *run["analyses"][command]]
            call(last, *words, *inputs_of(run, options.device))
            write_archive(options.out)


def inputs_of(run: dict[str, Any], device: str) -> list[Any]:
    return ["--dataset", DATA, "--partition", KIT / run["partition"], "--device", device]


def call(end: float, *words: Any) -> str | None:
    """Run Python with ``words``, at most until ``end``; return its output, None if it failed or was stopped."""
    command, seconds = [sys.executable, *map(str, words)], end - time.monotonic()
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, timeout=seconds, check=True, text=True).stdout
    except subprocess.SubprocessError as error:
        print(f"{type(error).__name__} after at most {seconds:.0f} s: {' '.join(command)[:100]} ...")
        return None


def print_round(options: argparse.Namespace) -> None:
    """Print the seconds of a round: of its training and its evaluation, means over the second and the third round."""
    from flatfed.engine.job import assembly, machine
    from flatfed.runs.run_config import RunConfig

    run = json.loads(PLAN.read_text())["runs"][options.index]
    config = RunConfig(**run["config"])
    evaluation, sampling = config.evaluation.as_json(), config.sampling.as_json()
    every, evaluation["every"] = evaluation["every"], 1
    if sampling["scheme"] == "bernoulli":
        sampling["scheme"] = "fixed"  # the first round with another number of clients takes longer
    config = config.changed(evaluation=evaluation, sampling=sampling)
    machine.set_up(threads=1)
    device, clock = machine.pick_device(options.device), []
    data = assembly.load_data(config, DATA, KIT / run["partition"])
    simulation = assembly.simulation(config, *data, device, getattr(config.executor, device.type))
    for _ in range(3):
        simulation.advance()
        clock.append(dict(simulation.clock.seconds))
    training, evaluation = ((clock[2][name] - clock[0][name]) / 2 for name in ("training", "evaluation"))
    print(training + evaluation / every)


def gpu_name(device: str) -> str:
    if device == "cpu":
        return "cpu"
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, check=True, text=True).stdout.splitlines()[0]


def write_archive(out: Path) -> None:
    """Write the files of RESULTS to OUT/runs.tar.gz, without models and hidden files."""
    with tarfile.open(out / "runs.tar.gz.part", "w:gz") as archive:
        for file in sorted(RESULTS.rglob("*")):
            name = file.relative_to(RESULTS)
            hidden = any(part.startswith(".") for part in name.parts)
            if file.is_file() and not hidden and file.name != "model.safetensors":
                archive.add(file, name)
    (out / "runs.tar.gz.part").rename(out / "runs.tar.gz")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    steps = parser.add_subparsers(required=True)
    step = steps.add_parser("pack", help="at home: write .short_gpu")
    step.set_defaults(run=pack)
    step.add_argument("queue", type=Path)
    step.add_argument("--config", action="append", default=[], metavar="FILE|K=V", help="as in `flatfed describe`")
    step.add_argument("--scale", choices=("paper", "preview"), default="paper")
    step = steps.add_parser("queue", help="on the GPU host: train and analyse the runs that fit into SECONDS")
    step.set_defaults(run=queue)
    step.add_argument("out", type=Path)
    step.add_argument("seconds", type=float)
    step.add_argument("--analyses", type=float, default=0, help="seconds at the end that are kept for analyses")
    step.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    step = steps.add_parser("round", help="called by `queue`: print the seconds of a round of a packed run")
    step.set_defaults(run=print_round)
    step.add_argument("index", type=int)
    step.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
