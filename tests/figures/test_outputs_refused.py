"""Figures of the small project refuse files that are damaged, changed, or of another run, and keep the old picture."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

import made
import small_results
from flatfed import cli
from flatfed.runs.record import read_finished

RUN = small_results.folder("small/iid/fedsam", 1)
HESSIAN = f"{RUN.replace('/runs/', '/analysis/')}/hessian.json"
SURFACE = f"{RUN.replace('/runs/', '/analysis/')}/surface.npz"
PARTITION = "results/paper/partitions/small/{}/seed{}.npz".format
PROBED = small_results.folder("small~probe/iid/fedsam", 1)


def write(path: str, text: str):
    return path, lambda: Path(path).write_text(text)


def recorded(run: str, change):
    """Change a record and seal it again, as if the run had been made so."""
    return f"{run}/run.json", lambda: made.recorded(run, change)


def metrics(old: str, new: str):
    """Change metrics.csv, and the record with it."""

    def change() -> None:
        path = Path(RUN, "metrics.csv")
        path.write_text(path.read_text().replace(old, new))
        made.recorded(RUN)

    return f"{RUN}/metrics.csv", change


def copied(source: str, target: str):
    return target, lambda: shutil.copy(source, target)


def digests(**changes: str):
    """Return the digests of an analysis of the run, with changes."""
    found = read_finished(RUN)
    true = made.digests(
        dataset=found.dataset_digest, partition=found.partition_digest, model=found.files["model.safetensors"]
    )
    return true.model_copy(update=changes)


def hessian(numbers=(20.0, 200), **about):
    """Write another hessian.json of seed 1; ``digests``: changes of them."""

    def change() -> None:
        changed = {"digests": digests(**about["digests"])} if "digests" in about else {}
        small_results.hessians("small/iid/fedsam", numbers, **{**about, **changed})

    return HESSIAN, change


def hessian_json(key: str, value):
    """Set a key of hessian.json."""

    def change() -> None:
        content = json.loads(Path(HESSIAN).read_text())
        made.sealed(HESSIAN, {**content, key: value})

    return HESSIAN, change


def surface(**about):
    """Write another surface.npz; ``digests``: changes of them."""

    def change() -> None:
        changed = {"digests": digests(**about["digests"])} if "digests" in about else {}
        small_results.surface("small/iid/fedsam", 2.0, **{**about, **changed})

    return SURFACE, change


def probes(change):
    return recorded(PROBED, lambda record: record.update(probes=[change(probe) for probe in record["probes"]]))


#: Name -> figure, (file, its change), the message as a pattern.
CASES = {
    "no record": ("bars", write(f"{RUN}/run.json", "[]"), r"seed1/run\.json: not the record of a run"),
    "edited lines": (
        "bars",
        write(f"{RUN}/metrics.csv", "round,test_accuracy\n1,0.1\n"),
        r"seed1/metrics\.csv: is not the file that run\.json next to it describes",
    ),
    "no number": ("bars", metrics("6,0.81,", "6,high,"), r"metrics\.csv: line 7: test_accuracy: 'high' is not a"),
    "another description": (
        "bars",
        recorded(RUN, lambda record: record["description"].update(learning_rate=0.3)),
        r"run\.json: not the requested run: learning_rate is 0\.3, here 0\.1",
    ),
    "another partition": (
        "bars",
        copied(PARTITION("iid", 2), PARTITION("iid", 1)),
        r"iid/seed1\.npz: not the partition of the run: seed is 2, the run has 1",
    ),
    "no partition": (
        "partition",
        write(PARTITION("dir0.6", 1), "no"),
        r"dir0\.6/seed1\.npz: cannot be read as a partition .*; delete it to rebuild it",
    ),
    "no probes": (
        "curves_probes",
        recorded(PROBED, lambda record: record.update(probes=[{"round": 0}])),
        r"seed1/run\.json: holds no probes with perturbation_drift",
    ),
    "probes on other images": (
        "curves_probes",
        probes(lambda probe: {**probe, "images_sha256": "b" * 64}),
        r"curves_probes: Sharpness: the probes of .*fedsam.* positions bbbbbbbbbbbb\) than those of .*fedavg",
    ),
    "Hessian of another run": (
        "eigenvalues",
        hessian(run="small/iid/fedavg/seed1"),
        r"hessian\.json: is of another run: small/iid/fedavg/seed1 at paper scale, not small/iid/fedsam/seed1",
    ),
    "Hessian of another model": (
        "eigenvalues",
        hessian(digests={"model": "f" * 64}),
        r"hessian\.json: was made with another model \(SHA-256 ffffffffffff, that of .*/seed1 is",
    ),
    "Hessian without digests": (
        "eigenvalues",
        hessian_json("digests", None),
        r"digests: null is nothing",
    ),
    "surface of another run": (
        "surface",
        surface(name="small/iid/fedavg/seed1"),
        r"surface\.npz: is of another run: small/iid/fedavg/seed1 at paper scale, not small/iid/fedsam/seed1",
    ),
    "surface of another model": (
        "surface",
        surface(digests={"model": "f" * 64}),
        r"surface\.npz: was made with another model \(SHA-256 ffffffffffff, that of .*/seed1 is",
    ),
    "surface on other images": (
        "surface",
        surface(images_sha256="e" * 64),
        r"FedSAM over FedAvg: .*fedsam.* has losses on other images \(SHA-256 of their positions eeeeeeeeeeee\), but "
        r".*fedavg.*they do not compare; .*`set: test` in the figure",
    ),
    "surface of another range in another panel": (
        "surface_accuracy",
        surface(range=0.5),
        r"FedSAM: .*fedsam.* has a range of 0\.5, but .*fedavg.* \(FedAvg\) a range of 1\.0",
    ),
    "surface on test images": ("surface", surface(set="test"), r"losses on test images, but .*they do not compare$"),
    "surface of another draw": ("surface", surface(seed=2), r"has directions of draw 2, but"),
    "surface of another range": ("surface", surface(range=0.5), r"has a range of 0\.5, but"),
    "surface of another grid": ("surface", surface(grid=7), r"has 7 points along a direction, but"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_file_that_does_not_fit_is_refused(small_project, capsys, name):
    figure, (file, change), message = CASES[name]
    old = Path(f"refused/{figure}.png")
    old.parent.mkdir(exist_ok=True)
    old.write_bytes(b"old")
    kept = {path: path.read_bytes() for path in {Path(file), Path(file).with_name("run.json")} if path.exists()}
    change()
    try:
        assert cli.main(["figure", figure, "--out", "refused"]) == 2
    finally:
        for path, content in kept.items():
            path.write_bytes(content)
    assert re.search(message, capsys.readouterr().err.strip(), re.DOTALL)
    assert old.read_bytes() == b"old"
