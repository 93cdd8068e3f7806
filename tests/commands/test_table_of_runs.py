"""``flatfed table --runs``: a table from metrics and records alone; runs that do not fit are listed."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import made
from flatfed import cli, plan
from flatfed.data import manifest
from flatfed.plan import numbers, run_specs
from flatfed.runs import record as records
from flatfed.tables import cells
from repository import ROOT
from shipped import EXP

PUBLISHED = ROOT / "results" / "published" / "cifar10-cnn"
FILL = cells.fill
ONE, OTHER = "runs/dir0.6-100/fedavg/seed1", "runs/dir0.6-100/fedsmoo/seed1"

#: A process that fails where torch or Snakemake was imported.
BARE = """
import sys
from flatfed import cli
code = cli.main()
sys.exit(code or sorted({"torch", "snakemake"} & {*sys.modules}) or 0)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A copy of the published runs, in a folder in which nothing else lies: no configuration, no data."""
    shutil.copytree(PUBLISHED / "runs", tmp_path / "copy" / "runs")
    monkeypatch.chdir(tmp_path)
    return Path("copy")


def make(*arguments: str, table: str = "cifar10_cnn") -> int:
    return cli.main(["table", table, "--runs", "copy", "--out", "out", *arguments])


def change(folder: Path, **values) -> None:
    """Write a record anew with other values, with sums of itself and its files."""
    path = folder / records.RECORD
    records.write(path, records.read(path).model_copy(update=values), (folder / records.METRICS,))


def test_what_is_published_is_made_again_byte_for_byte(folder):
    """Without torch, Snakemake, data or partitions."""
    before = sorted(folder.rglob("*"))
    done = subprocess.run(
        [sys.executable, "-c", BARE, "table", "cifar10_cnn", "--runs", "copy", "--out", "out"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for ending in ("csv", "md", "tex", "html"):
        made = Path("out", f"cifar10_cnn.{ending}").read_bytes()
        assert made == (PUBLISHED / f"cifar10_cnn.{ending}").read_bytes(), ending
    assert len(list(Path("out").iterdir())) == 4
    assert done.stdout == Path("out/cifar10_cnn.md").read_text()
    summary = "cifar10_cnn, paper scale: n = 2; float32; 45 of 45 rounds (96 runs; 0 others are not of this table)\n"
    assert done.stderr == summary
    assert sorted(folder.rglob("*")) == before


def test_runs_of_a_removed_executor_are_read(folder):
    for path in folder.rglob(records.RECORD):
        config = records.read(path).config.changed(executor={"cpu": "retired", "cuda": "retired"})
        change(path.parent, executor="retired", config=config)
    assert make() == 0
    assert Path("out/cifar10_cnn.csv").read_bytes() == (PUBLISHED / "cifar10_cnn.csv").read_bytes()


def test_images_are_those_that_the_records_count_whatever_lies_on_this_machine(folder, capsys):
    for path in folder.rglob(records.RECORD):
        change(path.parent, images={"train": 600, "test": 20})
    about = {"name": "cifar10", "classes": 10, "shape": [3, 32, 32], "train": 5, "test": 5, "domains": None}
    other = manifest.Manifest(**about, source={"source": "npz"}, digest="0" * 64, bytes=30720)
    manifest.write("resources/cifar10/dataset.json", other)
    assert make() == 0, capsys.readouterr().err
    text = Path("out/cifar10_cnn.md").read_text()
    assert "CIFAR-10 (620 of 60,000 images of 32x32), 100 clients" in text and "without sums" not in text


def test_runs_of_other_images_than_the_published_get_a_note(folder, capsys):
    for path in folder.rglob(records.RECORD):
        change(path.parent, dataset_digest="b1ac" * 16)
    assert make() == 0, capsys.readouterr().err
    for ending in ("md", "html", "tex"):
        text = " ".join(Path(f"out/cifar10_cnn.{ending}").read_text().replace("\n% ", " ").split())
        assert text.count("these may not be the published images: their digest b1acb1acb1ac is unknown") == 1, ending


def test_a_run_that_is_missing_is_counted_and_not_taken_from_elsewhere(folder, capsys):
    lost = Path("results/paper/runs/fedsmoo-cifar10~cnn/dir0.6-100/fedavg/seed1")
    shutil.move(folder / ONE, lost)
    assert make() == 0
    assert "n = 1 to 2; float32; 45 of 45 rounds (95 runs;" in capsys.readouterr().err
    lines = Path("out/cifar10_cnn.csv").read_text().splitlines()
    cells = {(cell["row"], cell["column"]): cell for cell in csv.DictReader(lines)}
    assert [key for key, cell in cells.items() if cell["status"] != "ok"] == [("fedavg", "dir0.6-100")]
    assert cells["fedavg", "dir0.6-100"]["problems"] == f"{lost} has no run.json"
    assert make("--so-far") == 0
    cells = csv.DictReader(Path("out/cifar10_cnn.csv").read_text().splitlines())
    (cell,) = [cell for cell in cells if (cell["row"], cell["column"]) == ("fedavg", "dir0.6-100")]
    assert (cell["status"], cell["n"], cell["seeds"]) == ("ok", "1", "2"), "the seeds that are there"


def test_cells_read_the_runs_in_their_folders(folder, monkeypatch):
    """Without links and without another working directory."""
    given = {}

    def fill(spec, **options):
        given[Path.cwd()] = {run.path for number in spec.numbers for run in number.runs}
        return FILL(spec, **options)

    monkeypatch.setattr(cells, "fill", fill)
    here = Path.cwd()
    assert make() == 0
    assert given == {here: {str(file.parent) for file in folder.rglob(records.RECORD)}}


def edited(folder: Path) -> None:
    change(folder / ONE)
    path = folder / ONE / records.METRICS
    path.write_text(path.read_text().replace("0.5347", "0.9347"))


def cut(folder: Path) -> None:
    path = folder / ONE / records.METRICS
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    change(folder / ONE)


def described(folder: Path) -> None:
    change(folder / ONE, config=records.read_finished(folder / ONE).config.changed(learning_rate=0.2))


def unnamed(folder: Path) -> None:
    made.recorded(folder / ONE, lambda record: record["description"].update(seed="1"))


def preview(folder: Path) -> None:
    change(folder / ONE, config=records.read_finished(folder / ONE).config.changed(scale="preview"))


@pytest.mark.parametrize(
    ("slip", "path", "words"),
    [
        (edited, ONE, "metrics.csv: is not the file that run.json next to it describes"),
        (cut, ONE, "metrics.csv: ends with round 42, but run.json says rounds_done 45"),
        (described, ONE, "not the requested run: learning_rate is 0.2, here 0.1"),
        (unnamed, ONE, 'run.json: not the record of a run (description.seed: "1" is a text; expected a whole number)'),
        (lambda folder: change(folder / ONE, partition_digest="0" * 64), ONE, "data: partition_digest is 000000000000"),
        (lambda folder: change(folder / OTHER, dataset_digest="0" * 64), OTHER, "data: dataset_digest is 000000000000"),
        (lambda folder: (folder / ONE / "run.json").write_text("{"), ONE, "run.json: not the record of a run"),
    ],
)
def test_a_run_that_does_not_fit_is_listed_and_its_cell_is_missing(folder, capsys, slip, path, words):
    slip(folder)
    assert make() == 0
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith(f"not shown: copy/{path}: ")]
    assert len(said) == 1 and words in said[0]
    cells = csv.DictReader(Path("out/cifar10_cnn.csv").read_text().splitlines())
    missing = {(cell["row"], cell["column"]) for cell in cells if cell["status"] == "missing"}
    assert {(path.split("/")[2], "dir0.6-100")} <= missing and len(missing) == 1


def test_a_run_that_is_there_twice_counts_once(folder, capsys):
    before = shutil.copytree(folder / ONE, folder / "a" / ONE)
    assert make() == 0
    said = capsys.readouterr().err
    assert f"not shown: copy/{ONE}: not used: 45 rounds, {before} is shown: 45" in said
    assert Path("out/cifar10_cnn.md").read_bytes() == (PUBLISHED / "cifar10_cnn.md").read_bytes()


def test_a_run_of_the_other_scale_is_of_another_table(folder, capsys):
    preview(folder)
    assert make() == 0
    assert "(95 runs; 1 others are not of this table)" in capsys.readouterr().err


def test_of_two_scales_the_requested_one_or_that_of_the_longest_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for scale in ("paper", "preview"):
        config = run_specs.run(EXP, scale, "fedsmoo-cifar10", SPLIT, "fedcm", 1).config
        made.run(f"copy/{scale}", {"round": [config.rounds], "test_accuracy": [0.5]}, settings=config.as_json())
    for words, scale in ([], "paper"), (["--scale", "preview"], "preview"):
        assert make(*words, table="fedsmoo2023_T1") == 0
        said = capsys.readouterr().err
        assert f"fedsmoo2023_T1, {scale} scale: n = 1;" in said and "(1 run; 1 others are not of this table)" in said


def test_a_folder_without_a_run_of_the_table_is_refused(folder, capsys):
    assert make(table="fedsmoo2023_T1") == 2
    said = capsys.readouterr().err
    assert "copy: no run of table fedsmoo2023_T1 among 96 finished ones; --so-far reads others, too" in said
    assert make(table="cifar10_cn") == 2
    assert "did you mean 'cifar10_cnn'?" in capsys.readouterr().err
    shutil.rmtree(folder / "runs")
    assert make() == 2
    assert "copy: no run of table cifar10_cnn among 0" in capsys.readouterr().err
    assert cli.main(["table", "cifar10_cnn", "--so-far"]) == 2
    assert "--so-far needs --runs FOLDER" in capsys.readouterr().err
    assert not Path("out").exists()


def test_analyses_of_a_published_run_lie_beside_the_runs():
    for folder, analyses in (
        ("copy/runs/s/a/seed1", "copy/analysis/s/a/seed1"),
        ("runs/s/a/seed1", "analysis/s/a/seed1"),
        ("runs/copy/runs/s/a/seed1", "runs/copy/analysis/s/a/seed1"),
        ("copy/s/a/seed1", "copy/s/a/seed1"),
    ):
        assert made.requested(folder, {}).hessian == f"{analyses}/hessian.json"


def test_analyses_of_a_configured_run_lie_where_the_rules_write_them(tmp_path):
    """Also if a split has the name of the folder of all runs."""
    named = {"runs": {"scheme": "dirichlet", "alpha": 0.5, "clients": 100, "participation": 0.1}}
    found = plan.load(made.edited(tmp_path, "splits.yaml", lambda splits: splits.update(named)))
    run = run_specs.run(found, "paper", "fedsmoo-cifar10", "runs", "fedavg", 1)
    assert run.path == "results/paper/runs/fedsmoo-cifar10/runs/fedavg/seed1"
    assert run.hessian == "results/paper/analysis/fedsmoo-cifar10/runs/fedavg/seed1/hessian.json"
    assert run.timing == "results/paper/analysis/fedsmoo-cifar10/runs/fedavg/timing.json"


SPLIT = "path3-100"
LOW = {"protocol": "fedsmoo-cifar10~bfloat16", "precision": "bfloat16"}


def at_paper_setting(algorithm: str, accuracies: list[float], folder: str = "copy", seed: int = 1, **changes) -> Path:
    """Write a run of 800 rounds with ``accuracies``, finished if these are as many; return its folder."""
    about = {**run_specs.run(EXP, "paper", "fedsmoo-cifar10", SPLIT, algorithm, seed).config.as_json(), **changes}
    rounds = list(range(1, len(accuracies) + 1))
    sent = {name: [1000 * number for number in rounds] for name in ("download_bytes", "upload_bytes")}
    write = made.run if len(rounds) == about["rounds"] else made.so_far
    place = Path(folder, about["protocol"], SPLIT, algorithm, f"seed{seed}")
    return Path(write(place, {"round": rounds, "test_accuracy": accuracies, **sent}, settings=about))


@pytest.fixture
def so_far(tmp_path, monkeypatch):
    """FedCM at round 4 of 800, 68 % reached in round 3; FedAvg at round 2; FedSMOO finished."""
    monkeypatch.chdir(tmp_path)
    # Their few rounds have no mean of 21.
    def unsmoothed(number, **changes):
        return replace(number, **{key: 1 if key == "smoothing" else value for key, value in changes.items()})

    monkeypatch.setattr(numbers, "replace", unsmoothed)
    at_paper_setting("fedcm", [0.1, 0.5, 0.69, 0.6])
    at_paper_setting("fedavg", [0.1, 0.2])
    at_paper_setting("fedsmoo", [0.5] * 143 + [0.68] * 50 + [0.80] * 607)


def cells_of(table: str = "fedsmoo2023_T6", *arguments: str) -> dict[tuple[str, str], dict[str, str]]:
    """Make a table; return its cells by row and metric of the column."""
    assert make(*(arguments or ["--so-far"]), table=table) == 0
    lines = csv.DictReader(Path(f"out/{table}.csv").read_text().splitlines())
    return {(line["row"], line["column"].rpartition("-")[2]): line for line in lines}


def entries(table: str = "fedsmoo2023_T6") -> dict[str, list[str]]:
    """Return the texts of the rows of a table's Markdown, by label."""
    lines = Path(f"out/{table}.md").read_text().splitlines()
    rows = [[text.strip() for text in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return {label: texts for label, *texts in rows}


def test_a_target_that_was_reached_counts_and_one_that_was_not_takes_more_rounds(so_far, capsys):
    numbers = cells_of()
    rows = entries()
    assert rows["FedCM"] == ["3", "96", "−93", ">4", "442", ""]
    assert rows["FedAvg"] == [">2", "246", "", ">2", "723", ""]
    assert rows["FedSMOO"] == ["144", "144", "+0", "194", "194", "+0"]
    assert rows["FedAdam"][0] == "" and numbers["fedadam", "t1"]["status"] == "missing"
    waiting = numbers["fedcm", "t2"]
    assert (waiting["status"], waiting["rounds"], waiting["reached"]) == ("unfinished", "4", "0/1")
    assert waiting["agreement"] == "missing" and waiting["value"] == ""
    assert numbers["fedavg", "t1"]["runs"] == f"results/paper/runs/fedsmoo-cifar10/{SPLIT}/fedavg/seed1"
    text = Path("out/fedsmoo2023_T6.md").read_text()
    said = "(n = 1; float32; 2 to 800 of 800 rounds)"
    assert text.splitlines()[0].endswith(said)
    assert "- Shown: 2 of its 16 columns, those with runs.\n" in text and "Some runs are unfinished" in text
    assert capsys.readouterr().out == text


def test_numbers_of_the_last_round_wait_for_it(so_far):
    at_paper_setting("fedsmoo", [0.9] * 3, seed=2)
    numbers = cells_of("fedsmoo2023_T1")
    (column,) = {column for _, column in numbers}
    assert {row for row, _ in numbers if numbers[row, column]["status"] == "ok"} == {"fedsmoo"}
    assert numbers["fedsmoo", column]["value"] == "0.8" and numbers["fedsmoo", column]["seeds"] == "1"
    assert {row for row, _ in numbers if numbers[row, column]["status"] == "unfinished"} == {"fedavg", "fedcm"}
    assert numbers["fedcm", column]["problems"].endswith("fedcm/seed1 has done 4 of 800 rounds")
    rows = entries("fedsmoo2023_T1")
    assert (rows["FedCM"][0], rows["FedAvg"][0], rows["FedAdam"][0]) == ("round 4", "round 2", "")
    assert "- Round N: the run has completed N rounds" in Path("out/fedsmoo2023_T1.md").read_text()


def test_without_so_far_finished_runs_only(so_far, capsys):
    at_paper_setting("fedavg", [0.7] * 800, **LOW)
    numbers = cells_of("fedsmoo2023_T6", "--config", "scale=paper")
    assert {row for row, _ in numbers if numbers[row, "t1"]["status"] == "ok"} == {"fedsmoo", "fedavg"}
    said = capsys.readouterr().err
    assert "n = 1; bfloat16 and float32; 800 of 800 rounds (2 runs; 0 others are not of this table)" in said
    assert "fedcm" not in said


def test_a_cell_is_in_the_precision_of_its_longest_run(so_far, capsys):
    """All its seeds; the other runs are listed. Refused runs do not count, finished runs do before longer ones."""
    for seed in (1, 2):
        at_paper_setting("feddyn", [0.7] * 9, seed=seed, **LOW)
    at_paper_setting("feddyn", [0.7] * 8, seed=2)
    at_paper_setting("fedcm", [0.7] * 3, **LOW)
    numbers = cells_of()
    cell = numbers["feddyn", "t1"]
    assert (cell["value"], cell["seeds"]) == ("1.0", "1;2") and cell["runs"].count("~bfloat16/") == 2
    assert numbers["fedcm", "t1"]["value"] == "3.0" and "~bfloat16" not in numbers["fedcm", "t1"]["runs"]
    said = capsys.readouterr().err
    for loser in (f"~bfloat16/{SPLIT}/fedcm/seed1", f"/{SPLIT}/feddyn/seed2"):
        assert f"not shown: copy/fedsmoo-cifar10{loser}: not used: its cell has another precision" in said
    assert "(5 runs; 0 others are not of this table)" in said
    at_paper_setting("fedcm", [0.7] * 9, **LOW, learning_rate=0.2)
    at_paper_setting("fedsmoo", [0.7] * 799, **LOW)
    numbers = cells_of()
    assert (numbers["fedcm", "t1"]["value"], numbers["fedsmoo", "t1"]["value"]) == ("3.0", "144.0")
    assert "learning_rate" in capsys.readouterr().err


def test_of_two_runs_the_finished_one_then_the_longer_one(so_far, capsys):
    for folder, rounds in (("copy/a", 2), ("copy/b", 5), ("copy/c", 4)):
        at_paper_setting("feddyn", [0.1] * (rounds - 1) + [0.7], folder)
    assert cells_of()["feddyn", "t1"]["value"] == "5.0"
    said = capsys.readouterr().err
    for name, rounds in (("a", 2), ("c", 4)):
        assert f"not shown: copy/{name}/" in said and f"not used: {rounds} rounds, copy/b/" in said
    at_paper_setting("feddyn", [0.7] * 800, "copy/d")
    assert cells_of()["feddyn", "t1"]["value"] == "1.0"


@pytest.mark.parametrize(("first", "value"), [("~bfloat16", "7.0"), ("", "9.0")])
def test_of_two_precisions_the_one_that_finished_first_stays(so_far, first, value):
    for late, rounds in (("~bfloat16", 6), ("", 8)):
        changes = LOW if late else {}
        folder = at_paper_setting("feddyn", [0.1] * rounds + [0.7] * (800 - rounds), **changes)
        change(folder, finished=f"2026-11-2{5 + (late != first)}T10:00:00+00:00")
    assert cells_of()["feddyn", "t1"]["value"] == value


@pytest.mark.parametrize("stage", ["the summary", "the cells"])
def test_a_run_that_writes_its_next_rounds_meanwhile_is_read_again(so_far, monkeypatch, capsys, stage):
    """A training replaces its lines, then its record: what is read between the two does not fit."""
    folder = Path("copy/fedsmoo-cifar10", SPLIT, "fedcm/seed1").absolute()
    record = folder / records.RECORD_SO_FAR
    old = record.read_bytes()
    at_paper_setting("fedcm", [0.1, 0.5, 0.69, 0.6, 0.7])
    new = record.read_bytes()
    fill = cells.fill

    def fill_meanwhile(*arguments, **options):
        record.write_bytes(old)
        return fill(*arguments, **options)

    if stage == "the summary":
        record.write_bytes(old)
    else:
        monkeypatch.setattr(cells, "fill", fill_meanwhile)
    monkeypatch.setattr(records.time, "sleep", lambda seconds: record.write_bytes(new))
    assert cells_of()["fedcm", "t1"]["status"] == "ok"
    assert "not shown" not in capsys.readouterr().err


def test_a_damaged_unfinished_run_is_listed(so_far, capsys):
    lines = Path("copy/fedsmoo-cifar10", SPLIT, "fedcm/seed1", records.LINES_SO_FAR)
    lines.write_text(lines.read_text().replace("0.69", "0.99"))
    assert cells_of()["fedcm", "t1"]["status"] == "missing"
    assert "fedcm/seed1/metrics.so-far.csv: is not the file that run.so-far.json" in capsys.readouterr().err


def test_all_columns_with_runs_whatever_the_configuration_selects(so_far):
    """Of this table, config.yaml names one column, of another split."""
    column = "cifar10-dir0.1-100.rounds_to_target-t1"
    Path("config.yaml").write_text(
        f"scale: preview\nfigures: []\ntables: [{{table: fedsmoo2023_T6, columns: [{column}]}}]\n"
    )
    numbers = cells_of("fedsmoo2023_T6", "--so-far", "--config", "config.yaml")
    assert {column for _, column in numbers} == {"t1", "t2"}


def test_a_hessian_is_read_beside_its_run_and_never_of_an_absent_run(tmp_path, monkeypatch, capsys):
    """Errors name the file that was read, cells the place in results/."""
    monkeypatch.chdir(tmp_path)
    config = run_specs.run(EXP, "paper", "fedsmoo-cifar10", "dir0.6-100", "fedsam", 1).config
    columns = {"round": range(1, 801), **dict.fromkeys(("test_accuracy", "consistency"), [0.5] * 800)}
    made.run("copy/runs/any", columns, settings=config.as_json())
    beside = Path(made.written("copy/analysis/any/hessian.json", made.hessian(10.0, 100.0, run=config.ids.name)))
    absent = "fedsmoo-cifar10/dir0.6-100/fedsmoo/seed1"
    made.written(f"results/paper/analysis/{absent}/hessian.json", made.hessian(10.0, 100.0, run=absent))

    def cells() -> dict[str, dict[str, str]]:
        assert make(table="fedsmoo2023_T2") == 0
        lines = csv.DictReader(Path("out/fedsmoo2023_T2.csv").read_text().splitlines())
        return {cell["row"]: cell for cell in lines if cell["metric"] == "hessian_top_eigenvalue"}

    found = cells()
    assert (found["fedsam"]["value"], found["fedsmoo"]["value"]) == ("10.0", "")
    assert found["fedsmoo"]["problems"] == f"results/paper/runs/{absent} has no run.json"
    beside.write_text("{")
    assert make(table="fedsmoo2023_T2") == 2
    assert "flatfed table: copy/analysis/any/hessian.json: " in capsys.readouterr().err
    beside.unlink()
    named = f"results/paper/analysis/{config.ids.name}/hessian.json"
    assert cells()["fedsam"]["problems"] == f"{named} does not exist"
