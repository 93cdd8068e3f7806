"""Figures of the small project refuse files that are damaged, changed, or of another run, and keep the old picture."""

from __future__ import annotations

import re
import shutil
from functools import partial
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


def analysis(path: str, write, *arguments, **about):
    """Write another analysis of seed 1; ``digests``: changes of them."""

    def change() -> None:
        changed = {"digests": digests(**about["digests"])} if "digests" in about else {}
        write("small/iid/fedsam", *arguments, **{**about, **changed})

    return path, change


hessian = partial(analysis, HESSIAN, small_results.hessians, (20.0, 200))
surface = partial(analysis, SURFACE, small_results.surface, 2.0)


NO_PROBES = recorded(PROBED, lambda record: record.update(probes=[{"round": 0}]))
MODEL = {"model": "f" * 64}
OTHER_RUN = "is of another run: small/iid/fedavg/seed1 at paper scale, not small/iid/fedsam/seed1"
OTHER_MODEL = r"was made with another model \(SHA-256 ffffffffffff, that of .*/seed1 is"


#: Name -> figure, (file, its change), the message as a pattern.
CASES = {
    "no number": ("bars", metrics("6,0.81,", "6,high,"), r"metrics\.csv: could not convert string to float: 'high'"),
    "another partition": ("bars", copied(PARTITION("iid", 2), PARTITION("iid", 1)), r"seed is 2, the run has 1"),
    "no partition": ("partition", write(PARTITION("dir0.6", 1), "no"), r"seed1\.npz: cannot be read as a part"),
    "no probes": ("curves_probes", NO_PROBES, r"holds no probes with perturbation_drift"),
    "Hessian of another run": ("eigenvalues", hessian(run="small/iid/fedavg/seed1"), rf"hessian\.json: {OTHER_RUN}"),
    "Hessian of another model": ("eigenvalues", hessian(digests=MODEL), rf"hessian\.json: {OTHER_MODEL}"),
    "surface of another run": ("surface", surface(name="small/iid/fedavg/seed1"), rf"surface\.npz: {OTHER_RUN}"),
    "surface of another model": ("surface", surface(digests=MODEL), rf"surface\.npz: {OTHER_MODEL}"),
    "surface of another range": ("surface", surface(range=0.5), r"analysis: range is 0\.5, here 1\.0; rebuild it"),
    "Hessian of fewer images": ("eigenvalues", hessian(images=10), r"requested analysis: images is 10, here 20"),
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
