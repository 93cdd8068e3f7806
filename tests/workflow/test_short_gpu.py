"""benchmarks/short_gpu.sh: a queue packed at home runs on a host without a network, and its results come home."""

import json
import sys
import tarfile

import pytest
import short_gpu
from project import PARTS, PROTOCOL, SPLIT, Project

from samples import full

QUEUE = "benchmarks/queue.txt"
KIND = "cpu, fedsmoo-cifar10, 30 clients, {}"
RUN = f"results/published/fedsmoo-cifar10/{{}}/{SPLIT}/fedavg/seed1"
ABSENT = ("pydantic", "snakemake", "seaborn")  # on the GPU host
LINE = f"fedsmoo-cifar10 {SPLIT} fedavg 1\n"


def small_analyses(protocol):
    hessian = {"images": 20, "top": 1, "vectors": 4}
    protocol["preview"].update(analysis={"surface": {"grid": 3, "images": 20}, "hessian": hessian})


def refusal(monkeypatch, *words):
    """Return the message that short_gpu.py ends with."""
    monkeypatch.setattr(sys, "argv", ["short_gpu.py", *words])
    with pytest.raises(SystemExit) as end:
        short_gpu.main()
    return str(end.value)


@full
def test_the_run_that_fits_comes_home(tmp_path, monkeypatch, capsys):
    """Of a packed queue of a quick run and of one that takes hours."""
    home = Project.copied(tmp_path / "home", parts=(*PARTS, "benchmarks"))
    home.edit_yaml(PROTOCOL, small_analyses)
    queue, measured = home.root / QUEUE, (home.root / QUEUE).with_suffix(".measured.json")
    queue.write_text(f"# two runs\n{LINE}\nfedsmoo-cifar10 {SPLIT} fedsmoo 1  # slow\n")
    slow = {KIND.format("fedsmoo"): {"round": 1000, "start": 1}}
    measured.write_text(json.dumps(slow | {KIND.format("fedavg"): {"round": 11, "start": 1}}))
    here = f'PYTHONS = ("{sys.version_info.major}.{sys.version_info.minor}",)'
    home.edit("benchmarks/short_gpu.py", ('PYTHONS = ("3.11", "3.12")', here))
    home.by_hand(f"benchmarks/short_gpu.sh pack {QUEUE} --scale preview")

    host = Project.copied(tmp_path / "host", source=home.root, parts=(*PARTS, "benchmarks", ".short_gpu"))
    for folder in (packages := tmp_path / "packages", out := tmp_path / "out"):
        folder.mkdir()
    for name in ABSENT:
        (packages / f"{name}.py").write_text("raise ImportError")
    text = host.by_hand(f"PYTHONPATH={packages} benchmarks/short_gpu.sh queue {out} 600 --device cpu").text
    assert f"{SPLIT} fedsmoo 1: needs 22001 of " in text and "does not start" in text
    assert sorted(file.name for file in out.iterdir()) == ["queue.txt", "runs.tar.gz"]

    with tarfile.open(out / "runs.tar.gz") as archive:
        archive.extractall(home.root, filter="data")
    run, analysis = (home.root / RUN.format(kind) for kind in ("runs", "analysis"))
    assert sorted(file.name for file in run.iterdir()) == ["metrics.csv", "run.json"]
    assert json.loads((run / "run.json").read_text())["rounds_done"] == 20
    assert sorted(file.name for file in analysis.iterdir()) == ["hessian.json", "surface.npz"]
    assert json.loads((analysis / "hessian.json").read_text())["pyhessian"]["version"]
    assert list(run.parents[2].glob("*/*/*")) == [run]
    seconds = json.loads(measured.read_text())
    assert seconds.pop(KIND.format("fedavg"))["round"] < 10 and seconds == slow

    monkeypatch.chdir(home.root)
    queue.write_text(LINE)
    assert "needs unpublished runs" in refusal(monkeypatch, "pack", QUEUE, "--scale", "preview")
    assert f"{LINE[:-1]}: is published already" in capsys.readouterr().out
    queue.write_text("fedsmoo-cifar10 fedavg 1\n")
    expected = "'fedsmoo-cifar10 fedavg 1': expected a protocol, a split, an algorithm, a seed and perhaps a folder"
    assert expected in refusal(monkeypatch, "pack", QUEUE)
    with pytest.raises(SystemExit, match=r"images\.1\.npz is missing"):
        short_gpu.read_half(tmp_path / "images.1.npz", 1, 8, 8)
