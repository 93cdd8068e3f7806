"""Altered, wrong and cut files in right places: each is refused by name before a number of it is used.

What was there stays. The runs are real ones, of two rounds. Figures: tests/figures/test_outputs_refused.py.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import made
from flatfed import cli
from flatfed.data import manifest as manifests
from flatfed.data import partition
from flatfed.errors import DataError
from flatfed.files import SEAL, digest_arrays, read_json, write_json, write_sealed
from flatfed.plan.number import Number
from flatfed.runs import curvature, landscape_file, timing
from flatfed.runs import record as records
from flatfed.tables import cells, write
from flatfed.tables import report as reports
from flatfed.tables.readings import read_history
from harness import description, write_problem

RUN, OTHER = Path("runs/problem/test/fedavg/seed3"), Path("runs/problem/test/fedsam/seed3")
METRICS, RECORD, MODEL = RUN / "metrics.csv", RUN / "run.json", RUN / "model.safetensors"
IMAGES, LABELS, MANIFEST = (Path("data", name) for name in ("images.npy", "labels.npy", "dataset.json"))
DEALT, OF_BASE = Path("partition.npz"), Path("of_base.npz")
DEAL = {"dataset": "problem", "classes": 3, "scheme": "iid", "clients": 6, "sampler": "keyed"}


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    """A problem, another one of the same labels, FedAvg's and FedSAM's finished runs on the first, other partitions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("altered"))
        write_problem(Path())
        write_problem(Path("elsewhere"))
        images = np.load("elsewhere/data/images.npy")
        images[0] += 1
        np.save("elsewhere/data/images.npy", images)
        digest = digest_arrays(images=images, labels=np.load(LABELS))
        write_sealed("elsewhere/data/dataset.json", {**read_json(MANIFEST), "digest": digest})
        for seed, file in ((3, DEALT), (3, OF_BASE), (4, "partition4.npz"), (3, "elsewhere/partition.npz")):
            partition.make({**DEAL, "seed": seed}, Path(file).parent / "data", file)
        for folder in (RUN, OTHER):
            train(folder, folder)
        yield Path.cwd()


@pytest.fixture
def here(problem, tmp_path, monkeypatch):
    shutil.copytree(problem, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    for name in ("cell.json", "hessian.json"):
        Path(name).write_text("what was there before")
    return tmp_path


def described(folder: Path) -> dict:
    return description(folder.parts[-2], rounds=2, precision="float32", partition=DEAL)


def cell(base: Path | None = None) -> None:
    """Make the cell of FedAvg's run, against that in ``base`` if one is given."""
    number = {
        "table": "t", "column": "c", "row": "fedavg", "scale": "paper", "metric": "rounds_to_target",
        "target": 0.01, "window": 1, "rounds": 2, "seed": 3, "runs": (made.requested(RUN, described(RUN), DEALT),),
    }  # fmt: skip
    if base is not None:
        number |= {"relative": "difference", "base": "fedsam"}
        number |= {"base_runs": (made.requested(base, described(OTHER), OF_BASE),)}
    summary = cells.summarise([Number(**number)], "rounds", None, made.document())
    write_json("cell.json", write.content(summary))


def base_row() -> None:
    cell(OTHER)


def report() -> None:
    reports.read(made.requested(RUN, described(RUN)))


CPU = ("--device", "cpu")


class RefusedError(Exception):
    """A command said why, and did nothing."""


def command(*words: object) -> None:
    """Call a command that reads the run's folder; a refusal is raised, so that all readers refuse alike."""
    if cli.main([str(word) for word in (*words, "--dataset", "data")]) != 0:
        raise RefusedError


def surface() -> None:
    command("surface", RUN, *CPU, "--partition", DEALT, "--grid", 3, "--out", "surface.npz")


def hessian() -> None:
    command("hessian", RUN, *CPU, "--partition", DEALT, "--top", 1, "--vectors", 2, "--out", "hessian.json")


def rerun() -> None:
    command("rerun", RUN, "--out", "again")


def train(run: Path = RUN, out: Path = Path("fresh")) -> None:
    Path("spec.json").write_text(json.dumps(described(run)))
    command("train", "--run", "spec.json", *CPU, "--partition", DEALT, "--out", out)


READERS = (cell, base_row, report, surface, hessian, rerun, train)


def edit_record() -> None:
    RECORD.write_text(RECORD.read_text().replace('"learning_rate": 0.2', '"learning_rate": 0.3'))


def edit_manifest(**changes) -> None:
    write_json(MANIFEST, {**read_json(MANIFEST), **changes})


def deal() -> None:
    partition.make({**DEAL, "seed": 3}, "data", "dealt.npz")


def copied(source: Path | str, path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
        shutil.copytree(source, path)
    else:
        shutil.copy(source, path)


def other_data() -> None:
    copied("elsewhere/data", Path("data"))
    copied("elsewhere/partition.npz", DEALT)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: 2 * path.stat().st_size // 3])


def flip(path: Path, byte: int = -8) -> None:
    content = bytearray(path.read_bytes())
    content[byte] ^= 1
    path.write_bytes(content)


NOT_WRITTEN, CHANGED = "{}: is not the file that run.json", f"{RECORD}: was changed after it was written"
MANIFEST_CHANGED = f"{MANIFEST}: was changed after it was written ({SEAL} does not match); delete the folder to fetch"
METRICS_NOT_WRITTEN, MODEL_NOT_WRITTEN = NOT_WRITTEN.format(METRICS), NOT_WRITTEN.format(MODEL)
OTHER_RUN = f'{RECORD}: not the requested run: algorithm is "fedsam", here'
OTHER_SEED = "seed is 4, the run has 3"
ARRAYS = "data: the arrays are not those of dataset.json; delete the folder to fetch it again"
UNREADABLE, REBUILD = "; delete the folder to fetch it again", "delete it to rebuild it"

#: Alteration -> (the function that makes it, message, readers that refuse).
ALTERATIONS = {
    "edited metrics": (lambda: flip(METRICS, -3), METRICS_NOT_WRITTEN, (cell, base_row, report, rerun)),
    "edited record": (edit_record, CHANGED, (cell, report, surface, hessian)),
    "swapped run": (lambda: copied(OTHER, RUN), OTHER_RUN, (cell, report)),
    "swapped model": (lambda: copied(OTHER / "model.safetensors", MODEL), MODEL_NOT_WRITTEN, (surface,)),
    "cut model": (lambda: cut(MODEL), MODEL_NOT_WRITTEN, (hessian,)),
    "other partition": (lambda: copied("partition4.npz", DEALT), OTHER_SEED, (cell, train, surface, hessian)),
    "the base's partition": (lambda: copied("partition4.npz", OF_BASE), OTHER_SEED, (base_row,)),
    "other data of a run": (other_data, "was trained on other data", (cell,)),
    "other data of a model": (other_data, "not the dataset of", (surface, hessian)),
    "other data of a rerun": (other_data, "data: is not the dataset of the run", (rerun,)),
    "data without partition": (lambda: copied("elsewhere/data", Path("data")), "made from other data", (train,)),
    "edited image": (lambda: flip(IMAGES), ARRAYS, (train, surface)),
    "cut images": (lambda: cut(IMAGES), UNREADABLE, (train,)),
    "edited label": (lambda: flip(LABELS), ARRAYS, (train, deal, hessian)),
    "edited digest of data": (lambda: edit_manifest(digest="0" * 64), MANIFEST_CHANGED, (train,)),
    "edited counts of data": (lambda: edit_manifest(train=40, test=29), MANIFEST_CHANGED, (train, deal, hessian)),
    "cut manifest": (lambda: cut(MANIFEST), UNREADABLE, (train,)),
    "cut partition": (lambda: cut(DEALT), REBUILD, (train, surface)),
}
CASES = [
    pytest.param(alter, message, reader, id=f"{name}-{reader.__name__}")
    for name, (alter, message, readers) in ALTERATIONS.items()
    for reader in readers
]


def test_what_was_not_altered_is_read(here):
    for reader in READERS:
        reader()
    assert json.loads(Path("cell.json").read_text())["status"] == "ok"


@pytest.mark.parametrize(("alter", "message", "reader"), CASES)
def test_an_altered_file_is_refused_by_name_and_nothing_is_lost(here, capsys, alter, message, reader):
    def contents():
        return {path: path.read_bytes() for path in here.rglob("*") if path.is_file() and path.name != "spec.json"}

    alter()
    before = contents()
    with pytest.raises(Exception) as refusal:
        reader()
    text = capsys.readouterr().err if refusal.type is RefusedError else str(refusal.value)
    assert message in text and "Traceback" not in text and len(text.strip().splitlines()) == 1, text
    assert contents() == before, "what was there is there, and nothing new"


def write_landscape(path):
    about = made.landscape_about([made.landscape_model("fedavg")])
    axis, values = np.linspace(-1, 1, 5), np.ones((1, 5, 5))
    landscape_file.write(path, landscape_file.Landscape(about, axis, axis, values, values))


def write_manifest(path):
    about = {"name": "digits", "classes": 10, "shape": [1, 8, 8], "train": 1437, "test": 360, "domains": None}
    manifests.write(path, manifests.Manifest(**about, source={"source": "sklearn"}, digest=made.DIGEST, bytes=115008))


def change(path, changes, without=()):
    """Edit a file of JSON or arrays, and take keys away."""
    content = read_json(path) if path.suffix == ".json" else dict(np.load(path))
    assert content.keys() >= {*without}
    content = {key: value for key, value in (content | changes).items() if key not in without}
    write_json(path, content) if path.suffix == ".json" else np.savez_compressed(path, **content)


#: File -> its writer, its reader, its seal, and an edit.
SEALED = {
    "hessian.json": (lambda path: made.written(path, made.hessian(1.0, 9.0)), curvature.read, SEAL, {"trace": 8.0}),
    "timing.json": (lambda path: made.timing(path, {"seed": 1}, 2.0), timing.read, SEAL, {"seconds_per_round": 1.0}),
    "run.json": (lambda path: made.run(path.parent, {"round": [1]}), records.read, SEAL, {"seconds": 1.0}),
    "surface.npz": (write_landscape, landscape_file.read, "sha256", {"loss": np.zeros((1, 5, 5))}),
    "dataset.json": (write_manifest, manifests.read, SEAL, {"train": 1000, "test": 797}),
}


@pytest.mark.parametrize("edited", [True, False], ids=["edited", "without its seal"])
@pytest.mark.parametrize("name", SEALED)
def test_a_result_that_is_not_as_it_was_written_is_refused_by_name(tmp_path, name, edited):
    write, read, seal, changes = SEALED[name]
    path = made.place(tmp_path) / name
    path.parent.mkdir(parents=True)
    write(path)
    read(path)
    change(path, changes) if edited else change(path, {}, [seal])
    with pytest.raises(DataError, match=rf"{name}: .*{seal}.*; (delete|rebuild|restore) (it|the folder|the original)"):
        read(path)


@pytest.mark.parametrize("rounds", [[2, 1, 2], [1, 2, 2]])
def test_rounds_that_do_not_increase_are_refused(tmp_path, rounds):
    folder = made.place(tmp_path)
    made.run(folder, {"round": rounds, "test_accuracy": [0.1, 0.2, 0.3]})
    with pytest.raises(DataError, match=r"metrics\.csv: its rounds do not increase"):
        read_history(folder, records.read_finished(folder), ["test_accuracy"])
