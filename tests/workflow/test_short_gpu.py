"""benchmarks/short_gpu.sh: a queue packed at home runs on a host without a network, and its results come home."""

import json
import os
import shutil
import sys
import tarfile

from project import PARTS, SPLIT, Project

QUEUE = "benchmarks/queue.txt"
KIND = "cpu, fedsmoo-cifar10, 30 clients, {}"
RUN = f"results/published/fedsmoo-cifar10/{{}}/{SPLIT}/fedavg/seed1"
ABSENT = ("pydantic", "snakemake", "bokeh")  # on the GPU host


def short_gpu(project, *arguments, packages=""):
    """Call short_gpu.sh in ``project``; return the exit status and both streams in ``.text``."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    call = project.call("benchmarks/short_gpu.sh", *arguments, env={"PATH": path, "PYTHONPATH": str(packages)})
    call.text = call.stdout + call.stderr
    return call


def packed(tmp_path):
    """Return a copy of the project with a packed queue of a quick run and of one that takes hours."""
    (tmp_path / "home").mkdir()
    home = Project.copied(tmp_path / "home", parts=(*PARTS, "benchmarks"))
    (home.root / QUEUE).write_text(
        f"# two runs\nfedsmoo-cifar10 {SPLIT} fedavg 1\n\nfedsmoo-cifar10 {SPLIT} fedsmoo 1  # slow\n"
    )
    slow = {KIND.format("fedsmoo"): {"round": 1000, "start": 1}}
    (home.root / QUEUE).with_suffix(".measured.json").write_text(json.dumps(slow))
    packing = short_gpu(home, "pack", QUEUE, "--scale", "preview")
    assert packing.returncode == 0, packing.text
    return home


def test_the_run_that_fits_comes_home(tmp_path):
    home = packed(tmp_path)
    for folder in (root := tmp_path / "host", packages := tmp_path / "packages", out := tmp_path / "out"):
        folder.mkdir()
    host = Project.copied(root, source=home.root, parts=(*PARTS, "benchmarks", ".short_gpu"))
    for name in ABSENT:
        (packages / f"{name}.py").write_text("raise ImportError")

    second_half = host.root / ".short_gpu/images.1.npz"
    second_half.unlink()
    without = short_gpu(host, "queue", out, 600, "--device", "cpu", packages=packages)
    assert without.returncode != 0 and "images.1.npz is missing" in without.text
    shutil.copy(home.root / ".short_gpu/images.1.npz", second_half)

    call = short_gpu(host, "queue", out, 600, "--device", "cpu", packages=packages)
    assert call.returncode == 0, call.text
    assert f"{SPLIT} fedsmoo 1: needs 22001 of " in call.text and "does not start" in call.text
    assert sorted(file.name for file in out.iterdir()) == ["queue.txt", "runs.tar.gz"]

    with tarfile.open(out / "runs.tar.gz") as archive:
        archive.extractall(home.root, filter="data")
    run, analysis = (home.root / RUN.format(kind) for kind in ("runs", "analysis"))
    assert sorted(file.name for file in run.iterdir()) == ["metrics.csv", "run.json"]
    assert json.loads((run / "run.json").read_text())["rounds_done"] == 20
    assert sorted(file.name for file in analysis.iterdir()) == ["hessian.json", "surface.npz"]
    assert json.loads((analysis / "hessian.json").read_text())["pyhessian"]["version"]
    assert list(run.parents[2].glob("*/*/*")) == [run]
    measured = json.loads((home.root / QUEUE).with_suffix(".measured.json").read_text())
    assert measured[KIND.format("fedavg")]["round"] < 10
    assert measured[KIND.format("fedsmoo")] == {"round": 1000, "start": 1}

    again = short_gpu(home, "pack", QUEUE, "--scale", "preview")
    assert again.returncode == 0 and f"{SPLIT} fedavg 1: is published already" in again.text
    plan = json.loads((home.root / ".short_gpu/kit/plan.json").read_text())
    assert [planned["ids"][2] for planned in plan["runs"]] == ["fedsmoo"]

    (home.root / QUEUE).write_text("fedsmoo-cifar10 fedavg 1\n")
    packing = short_gpu(home, "pack", QUEUE)
    expected = "expected a protocol, a split, an algorithm, a seed and perhaps a folder"
    assert packing.returncode == 1 and f"'fedsmoo-cifar10 fedavg 1': {expected}" in packing.text
