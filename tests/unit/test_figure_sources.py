"""What a figure is made of is held before it is drawn: partitions, lines, and whose models its analyses are of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import made
from flatfed import figures
from flatfed.analysis.landscape import landscape_file
from flatfed.data import dataset, partition
from flatfed.errors import DataError
from flatfed.files import digest_file
from flatfed.runs import record as records

DEAL = {"dataset": "data", "classes": 2, "scheme": "iid", "clients": 2, "sampler": "keyed"}


def model(run: str) -> landscape_file.SurfaceModel:
    """Return what an analysis of ``run`` says of its model."""
    record = records.read_finished(run)
    digests = made.digests(
        dataset=record.dataset_digest,
        partition=record.partition_digest,
        model=digest_file(f"{run}/model.safetensors"),
    )
    ids = record.description
    return made.landscape_model(ids["algorithm"], name=record.name, scale=ids["scale"], digests=digests)


@pytest.fixture
def runs(tmp_path):
    """Two finished runs with models, of other algorithms."""
    found = []
    for name in ("one", "two"):
        folder = tmp_path / "protocol" / "split" / name / "seed1"
        folder.mkdir(parents=True)
        (folder / records.MODEL).write_bytes(name.encode())
        columns = {"round": [1, 2], "test_accuracy": [0.1, 0.2]}
        found.append(made.run(folder, columns, description={"scale": "paper"}))
    return found


def spec(kind: str, panel: dict) -> dict:
    said = {"figure": "f", "kind": kind, "scale": "paper", "title": "T", "metric": "loss"}
    return {**said, "panels": [{"title": "P", **panel}]}


def landscape(path, model: landscape_file.SurfaceModel) -> str:
    along = np.linspace(-1, 1, 5)
    square = (along[:, None] ** 2 + along**2 + 1)[None]
    about = made.landscape_about([model])
    landscape_file.write(path, landscape_file.Landscape(about, along, along, square, square))
    return str(path)


def hessian(path, of: landscape_file.SurfaceModel) -> str:
    return made.written(path, made.hessian_of_diverged(run=of.name, scale=of.scale, digests=of.digests))


def analysed(kind: str, folder, of: list[landscape_file.SurfaceModel], runs: list[str]) -> dict:
    """Return the specification of a figure of analyses of models ``of``, which are to be those of ``runs``."""
    if kind == "eigenvalues":
        files = [hessian(folder / f"{place}.json", one) for place, one in enumerate(of)]
        return spec(kind, {"marks": [{"algorithm": "fedavg", "label": "FedAvg", "files": files, "by_seed": runs}]})
    files = [landscape(folder / f"{place}.npz", one) for place, one in enumerate(of)]
    shown = [{"label": run, "files": [file], "by_seed": [run]} for run, file in zip(runs, files, strict=True)]
    return spec(kind, {"marks": shown})


@pytest.mark.parametrize("kind", ["eigenvalues", "surface"])
def test_an_analysis_is_of_the_model_that_is_asked_for(kind, runs, tmp_path):
    one, two = map(model, runs)
    figures.make(made.figure_spec(analysed(kind, tmp_path, [one, two], runs)), tmp_path)
    drawn = (tmp_path / "f.png").read_bytes()
    with pytest.raises(DataError, match=r"is of another run: protocol/split/one/seed1 at paper scale, not .*/two/"):
        figures.make(made.figure_spec(analysed(kind, tmp_path, [one, one], runs)), tmp_path)
    retrained = replace(two, digests=replace(two.digests, model="f" * 64))
    with pytest.raises(DataError, match=r"was made with another model \(SHA-256 ffffffffffff, that of .*/two/seed1 is"):
        figures.make(made.figure_spec(analysed(kind, tmp_path, [one, retrained], runs)), tmp_path)
    nameless = replace(two, digests=None)
    with pytest.raises(DataError, match=r"(not|cannot be read as) a .*digests: null is not a mapping"):
        figures.make(made.figure_spec(analysed(kind, tmp_path, [one, nameless], runs)), tmp_path)
    assert (tmp_path / "f.png").read_bytes() == drawn


def test_a_figure_holds_the_partitions_of_its_runs(tmp_path, runs):
    labels = np.arange(40) % 2
    data = tmp_path / "data"
    images = np.zeros((40, 1, 2, 2), np.uint8)
    about = {"name": "data", "classes": 2, "shape": [1, 2, 2], "source": {"source": "npz"}}
    parts = (dataset.Part(images[part], labels[part]) for part in (slice(30), slice(30, None)))
    dataset.save(data, about, dataset.Images(*parts))
    for seed in (1, 2):
        partition.make({**DEAL, "seed": seed}, data, tmp_path / f"{seed}.npz")
    dealt = partition.load(tmp_path / "1.npz")
    digest = dataset.load(data).digest
    for run in runs:
        made.recorded(run, lambda record: record.update(partition_digest=dealt.digest, dataset_digest=digest))
        made.recorded(run, lambda record: record["description"].update(partition=DEAL))
    series = [{"algorithm": "fedavg", "label": "FedAvg", "by_seed": runs}]
    shown = {**spec("curves", {"marks": series}), "metric": "test_accuracy", "smooth": 0}
    for seed, refused in ((1, False), (2, True)):
        runs = {run: made.requested(run, partition=str(tmp_path / f"{seed}.npz")) for run in runs}
        spec_ = made.figure_spec({**shown, "runs": runs})
        if refused:
            with pytest.raises(DataError, match=r"2\.npz: not the partition of the run: seed is 2, the run has 1"):
                figures.make(spec_, tmp_path)
        else:
            figures.make(spec_, tmp_path)
