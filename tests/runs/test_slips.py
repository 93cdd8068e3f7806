"""Wrong files in right places: each is refused by name before a number of it is used, and what was there stays.

Six kinds of slip, five readers each. The runs are real ones, of two rounds.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import made
from flatfed import cli
from flatfed.config.figure import FIGURE
from flatfed.data import partition
from flatfed.figures import draw_curves
from flatfed.files import digest_arrays, digest_json
from flatfed.plan.at_scale import ShownFigure
from flatfed.plan.figures import Mark, Panel
from flatfed.plan.look import Look
from flatfed.plan.number import Number
from flatfed.runs.tuning_choice import Point, TuningChoice
from flatfed.tables import cells, reported_runs, search
from harness import description, write_problem

RUN, OTHER = Path("runs/problem/test/fedavg/seed3"), Path("runs/problem/test/fedsam/seed3")
DEAL = {"dataset": "problem", "classes": 3, "scheme": "iid", "clients": 6, "sampler": "keyed"}
KEPT = "what was there before"


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    """A problem, another one of the same labels, FedAvg's and FedSAM's finished runs on the first, other partitions."""
    here = tmp_path_factory.mktemp("slips")
    write_problem(here)
    write_problem(here / "elsewhere")
    alter_images(here / "elsewhere/data")
    for seed, place in ((3, "partition.npz"), (4, "partition4.npz"), (3, "elsewhere/partition.npz")):
        partition.make({**DEAL, "seed": seed}, (here / place).parent / "data", here / place)
    for folder in (RUN, OTHER):
        (here / "spec.json").write_text(json.dumps(described(folder)))
        place = ["--dataset", here / "data", "--partition", here / "partition.npz", "--out", here / folder]
        words = ["train", "--run", here / "spec.json", *place, "--device", "cpu"]
        assert cli.main([str(word) for word in words]) == 0
    return here


def alter_images(folder: Path) -> None:
    """Change an image of a dataset, and its digest with it: another one of the same labels."""
    images, labels = np.load(folder / "images.npy"), np.load(folder / "labels.npy")
    images[0] += 1
    np.save(folder / "images.npy", images)
    about = json.loads((folder / "dataset.json").read_text())
    about["digest"] = digest_arrays(images=images, labels=labels)
    (folder / "dataset.json").write_text(json.dumps(about))


@pytest.fixture
def here(problem, tmp_path, monkeypatch):
    shutil.copytree(problem, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    for name in ("cell.json", "choice.json", "hessian.json"):
        Path(name).write_text(KEPT)
    return tmp_path


def described(folder: Path) -> dict:
    changes = {"rounds": 2, "precision": "float32", "partition": DEAL}
    return description(folder.parts[-2], **changes)


def cell(base: Path | None = None, dealt: str = "partition.npz", base_dealt: str = "partition.npz") -> None:
    """Make the cell of FedAvg's run, against that in ``base`` if one is given."""
    number = {
        "table": "t", "column": "c", "row": "fedavg", "scale": "paper", "metric": "rounds_to_target", "unit": "rounds",
        "target": 0.01, "window": 1, "rounds": 2, "seed": 3,
        "runs": (made.requested(RUN, described(RUN), dealt),),
    }  # fmt: skip
    if base is not None:
        number |= {"relative": "difference", "base": "fedsam"}
        number |= {"base_runs": (made.requested(base, described(OTHER), base_dealt),)}
    Path("cell.json").write_text(json.dumps(asdict(cells.summarise([Number(**number)]))), encoding="utf-8")


def figure() -> None:
    runs = (made.requested(RUN, described(RUN)),)
    about = {"table": "f", "column": "p", "row": "fedavg", "scale": "preview", "metric": "test_accuracy"}
    mark = Mark(label="FedAvg", algorithm="fedavg", numbers=[Number(**about, unit="number", seed=3, runs=runs)])
    document = FIGURE.check({"kind": "curves", "title": "T", "panels": [{"title": "p"}]}, "f")
    panels = [Panel(title="p", marks=[mark], metric="test_accuracy")]
    figure = ShownFigure(id="f", document=document, panels=panels, scale="preview", title="T", look=Look())
    draw_curves.draw(figure)


def report() -> None:
    reported_runs.read(made.requested(RUN, described(RUN)))


def choose() -> None:
    values = {"learning_rate": 0.2}
    point = Point(values=values, run=str(RUN), description_digest=digest_json(described(RUN)))
    ids = {"scale": "preview", "protocol": "problem", "split": "test", "row": "fedavg", "seed": 3}
    grid = {"learning_rate": [0.2]}
    choice = TuningChoice(**ids, validation=0.1, grid=grid, window=1, points=[point])
    search.make(choice, [made.requested(RUN, described(RUN))], "choice.json")


def command(*words: object, dataset: str = "data", dealt: str = "partition.npz") -> None:
    """Call a command that reads the run's folder; a refusal is raised, so that all readers refuse alike."""
    said = ["--dataset", dataset, *(["--partition", dealt] if dealt else []), "--device", "cpu"]
    if cli.main([str(word) for word in (*words, *said)]) != 0:
        raise RefusedError


class RefusedError(Exception):
    """A command said why, and did nothing."""


def surface(**place: str) -> None:
    command("surface", RUN, "--grid", 3, "--out", "surface.npz", **place)


def hessian(**place: str) -> None:
    command("hessian", RUN, "--out", "hessian.json", **place)


def again(dataset: str = "data") -> None:
    command("rerun", RUN, "--out", "again", dataset=dataset, dealt="")


def train(**place: str) -> None:
    Path("spec.json").write_text(json.dumps(described(RUN)))
    command("train", "--run", "spec.json", "--out", "fresh", **place)


def edit_metrics() -> None:
    path = RUN / "metrics.csv"
    lines = path.read_text().splitlines()
    fields = lines[-1].split(",")
    fields[4] = "0.999"
    path.write_text("\n".join([*lines[:-1], ",".join(fields), ""]))


def edit_record() -> None:
    path = RUN / "run.json"
    path.write_text(path.read_text().replace('"learning_rate": 0.2', '"learning_rate": 0.3'))


def swap() -> None:
    shutil.rmtree(RUN)
    shutil.copytree(OTHER, RUN)


def swap_model() -> None:
    shutil.copy(OTHER / "model.safetensors", RUN)


def swap_metrics() -> None:
    shutil.copy(OTHER / "metrics.csv", RUN)


def cut(path: Path | str) -> None:
    content = Path(path).read_bytes()
    Path(path).write_bytes(content[: 2 * len(content) // 3])


ELSEWHERE = {"dataset": "elsewhere/data", "dealt": "elsewhere/partition.npz"}
METRICS, RECORD, MODEL = RUN / "metrics.csv", RUN / "run.json", RUN / "model.safetensors"
NOT_WRITTEN, CHANGED = f"{METRICS}: is not the file that run.json", f"{RECORD}: was changed after it was written"
OTHER_RUN = f'{RECORD}: not the requested run: algorithm is "fedsam", here'

#: Kind of slip, reader -> (the slip, the reader's call, what is said).
SLIPS = {
    ("edited metrics", "cell"): (edit_metrics, cell, NOT_WRITTEN),
    ("edited metrics", "figure"): (edit_metrics, figure, NOT_WRITTEN),
    ("edited metrics", "report"): (edit_metrics, report, NOT_WRITTEN),
    ("edited metrics", "base row"): (edit_metrics, lambda: cell(OTHER), NOT_WRITTEN),
    ("edited metrics", "rerun"): (edit_metrics, again, NOT_WRITTEN),
    ("edited record", "cell"): (edit_record, cell, CHANGED),
    ("edited record", "figure"): (edit_record, figure, CHANGED),
    ("edited record", "report"): (edit_record, report, CHANGED),
    ("edited record", "choice"): (edit_record, choose, CHANGED),
    ("edited record", "surface"): (edit_record, surface, CHANGED),
    ("swapped folder", "cell"): (swap, cell, OTHER_RUN),
    ("swapped folder", "figure"): (swap, figure, OTHER_RUN),
    ("swapped folder", "report"): (swap, report, OTHER_RUN),
    ("swapped folder", "surface"): (swap_model, surface, f"{MODEL}: is not the file that run.json"),
    ("swapped folder", "rerun"): (swap_metrics, again, NOT_WRITTEN),
    ("other partition", "cell"): (None, lambda: cell(dealt="partition4.npz"), "seed is 4, the run has 3"),
    ("other partition", "base row"): (
        None,
        lambda: cell(OTHER, base_dealt="partition4.npz"),
        "seed is 4, the run has 3",
    ),
    ("other partition", "train"): (None, lambda: train(dealt="partition4.npz"), "seed is 4, the run has 3"),
    ("other partition", "surface"): (None, lambda: surface(dealt="partition4.npz"), "seed is 4, the run has 3"),
    ("other partition", "hessian"): (None, lambda: hessian(dealt="partition4.npz"), "seed is 4, the run has 3"),
    ("other data", "cell"): (None, lambda: cell(dealt=ELSEWHERE["dealt"]), "was trained on other data"),
    ("other data", "train"): (None, lambda: train(dataset=ELSEWHERE["dataset"]), "made from other data"),
    ("other data", "surface"): (None, lambda: surface(**ELSEWHERE), "not the dataset of"),
    ("other data", "hessian"): (None, lambda: hessian(**ELSEWHERE), "not the dataset of"),
    ("other data", "rerun"): (None, lambda: again(ELSEWHERE["dataset"]), "not the dataset that the run was trained"),
    ("cut file", "cell"): (lambda: cut(METRICS), cell, NOT_WRITTEN),
    ("cut file", "figure"): (lambda: cut(RECORD), figure, f"{RECORD}: not the record of a run"),
    ("cut file", "report"): (lambda: cut(RECORD), report, f"{RECORD}: not the record of a run"),
    ("cut file", "hessian"): (lambda: cut(MODEL), hessian, f"{MODEL}: is not the file that run.json"),
    ("cut file", "surface"): (lambda: cut("partition.npz"), surface, "partition.npz: cannot be read as a partition"),
}


def test_without_a_slip_all_of_them_read(here):
    for call in (cell, lambda: cell(OTHER), figure, report, surface, hessian, again, train):
        call()
    assert json.loads(Path("cell.json").read_text())["status"] == "ok"


@pytest.mark.parametrize(("kind", "reader"), SLIPS, ids=lambda word: word.replace(" ", "-"))
def test_a_slip_is_refused_by_name_and_nothing_is_lost(here, capsys, kind, reader):
    slip, call, said = SLIPS[kind, reader]
    if slip is not None:
        slip()
    before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file() and path.name != "spec.json"}
    with pytest.raises(Exception) as problem:
        call()
    text = capsys.readouterr().err if problem.type is RefusedError else str(problem.value)
    assert said in text, text
    assert "Traceback" not in text and len(text.strip().splitlines()) == 1, text
    after = {path: path.read_bytes() for path in here.rglob("*") if path.is_file() and path.name != "spec.json"}
    assert after == before, "what was there is there, and nothing new"
