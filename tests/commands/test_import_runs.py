"""Runs made on one machine and taken on another: whole, by digest, or not at all."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import made
from flatfed import cli
from flatfed.commands import configuration
from flatfed.engine import versions
from flatfed.files import read_json
from flatfed.plan import run_specs
from flatfed.runs import lock
from flatfed.runs import record as records

PROTOCOL, SPLIT = "fedsmoo-cifar10", "dir0.6-100"
COLUMN = "cifar10-dir0.6-100"


@pytest.fixture(scope="module")
def experiment():
    return configuration.load(None)


@pytest.fixture(scope="module")
def data(tmp_path_factory, experiment):
    """A folder with the digits and the partition of seed 1, as both machines have them."""
    root = tmp_path_factory.mktemp("data")
    spec = json.dumps(run_specs.dataset_spec(experiment.catalog, "digits").as_written())
    assert cli.main(["fetch", "--spec", spec, "--out", str(root / "resources/digits")]) == 0
    partition = experiment.paths.partition("preview", PROTOCOL, SPLIT, 1)
    deal = json.dumps(run_specs.partition_spec(experiment, "preview", PROTOCOL, SPLIT, 1).as_written())
    place = ["--dataset", str(root / "resources/digits"), "--out", str(root / partition)]
    assert cli.main(["partition", "--spec", deal, *place]) == 0
    return root


@pytest.fixture
def machines(data, tmp_path, monkeypatch, experiment):
    """Return (here, there): folders with data; here has two finished runs of seed 1, and is where we are."""
    for name in ("here", "there"):
        shutil.copytree(data, tmp_path / name)
        text = f"scale: preview\nseeds: [1]\ntables:\n  - {{table: fedsmoo2023_T1, columns: [{COLUMN}]}}\nfigures: []\n"
        (tmp_path / name / "config.yaml").write_text(text)
    monkeypatch.chdir(tmp_path / "here")
    from flatfed.data import partition as partitions

    digests = {
        "dataset_digest": read_json("resources/digits/dataset.json")["digest"],
        "partition_digest": partitions.load(Path(experiment.paths.partition("preview", PROTOCOL, SPLIT, 1))).digest,
    }
    for row in ("fedavg", "fedsmoo"):
        run = run_specs.run(experiment, "preview", PROTOCOL, SPLIT, row, 1)
        folder = Path(run.path)
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(row.encode() * 100)
        code = {"versions": versions.of_run(run.config)}
        rounds = [1, run.config.rounds]
        made.run(
            folder, {"round": rounds, "test_accuracy": [0.1, 0.2]}, settings=run.config.as_json(), **digests, **code
        )
    return tmp_path / "here", tmp_path / "there"


def flatfed(*arguments: str) -> int:
    return cli.main([arguments[0], "--config", "config.yaml", *arguments[1:]])


def run_folder(row: str) -> str:
    return f"results/preview/runs/{PROTOCOL}/{SPLIT}/{row}/seed1"


def brought(machines, name: str, *rows: str) -> None:
    """Copy the runs of ``rows`` (none: all) into a folder of their own beside both machines, as tar would."""
    here, there = machines
    for row in rows or ("fedavg", "fedsmoo"):
        shutil.copytree(here / run_folder(row), there.parent / name / run_folder(row))


def test_what_is_brought_is_taken(machines, monkeypatch, capsys):
    here, there = machines
    brought(machines, "brought")
    monkeypatch.chdir(there)
    assert flatfed("import", "../brought") == 0
    for row in ("fedavg", "fedsmoo"):
        for file in ("metrics.csv", "model.safetensors", "run.json"):
            assert (there / run_folder(row) / file).read_bytes() == (here / run_folder(row) / file).read_bytes()
    before = (there / run_folder("fedsmoo") / "run.json").stat().st_mtime_ns
    capsys.readouterr()
    brought(machines, "again", "fedavg")
    assert flatfed("import", "../again") == 0
    assert "0 runs accepted; 1 existed already" in capsys.readouterr().out
    assert (there / run_folder("fedsmoo") / "run.json").stat().st_mtime_ns == before


def test_a_run_that_another_process_trains_is_not_replaced(machines, monkeypatch, capsys):
    _, there = machines
    brought(machines, "brought")
    monkeypatch.chdir(there)
    assert flatfed("import", "../brought") == 0
    trained = there / run_folder("fedavg")
    (trained / ".checkpoint").mkdir()
    (trained / ".checkpoint/state").write_text("of the training")
    monkeypatch.setattr(lock, "PATIENCE", 0.0)
    with lock.held(trained):
        before = {path: path.stat().st_mtime_ns for path in trained.rglob("*")}
        assert flatfed("import", "--replace", "../brought") == 2
        assert {path: path.stat().st_mtime_ns for path in trained.rglob("*")} == before
        said = capsys.readouterr()
        assert f"{run_folder('fedavg')}: another process trains this run (process {os.getpid()} on " in said.err
        assert "1 runs accepted" in said.out and f"{run_folder('fedsmoo')}: accepted" in said.out
        assert "1 runs were not accepted" in said.err
    assert flatfed("import", "--replace", "../brought") == 0
    assert sorted(path.name for path in trained.iterdir()) == sorted(records.FILES)
    assert sorted(path.name for path in trained.parent.iterdir()) == ["seed1"]


def test_files_that_are_no_part_of_a_run_are_not_copied(machines, monkeypatch):
    _, there = machines
    brought(machines, "brought", "fedavg")
    folder = there.parent / "brought" / run_folder("fedavg")
    (folder / "notes.txt").write_text("mine")
    (folder / "checkpoint").mkdir()
    monkeypatch.chdir(there)
    assert flatfed("import", "../brought") == 0
    assert sorted(path.name for path in Path(run_folder("fedavg")).iterdir()) == sorted(records.FILES)
    assert sorted(path.name for path in folder.iterdir()) == sorted([*records.FILES, "checkpoint", "notes.txt"])


def test_a_run_of_a_removed_executor_is_taken(machines, monkeypatch, capsys):
    _, there = machines
    brought(machines, "brought", "fedavg")
    folder = there.parent / "brought" / run_folder("fedavg")
    config = records.read_finished(folder).config.changed(executor={"cpu": "retired", "cuda": "retired"})
    changed(folder, description=config.as_json(), executor="retired")
    monkeypatch.chdir(there)
    assert flatfed("import", "../brought") == 0
    assert "1 runs accepted" in capsys.readouterr().out
    assert records.read_finished(run_folder("fedavg")).executor == "retired"
    assert flatfed("status") == 0 and flatfed("plan") == 0


@pytest.mark.parametrize("file", ["metrics.csv", "model.safetensors", "run.json"])
def test_a_file_that_changed_on_the_way_is_named_and_nothing_is_taken(machines, monkeypatch, capsys, file):
    _, there = machines
    brought(machines, "brought")
    path = there.parent / "brought" / run_folder("fedsmoo") / file
    content = path.read_bytes()
    path.write_bytes(content[:-9].replace(b"1", b"2") + content[-9:-1] + b" ")
    monkeypatch.chdir(there)
    assert flatfed("import", "../brought") == 2
    said = capsys.readouterr().err
    assert f"{run_folder('fedsmoo')}/{file}: " in said and "restore the original file" in said
    assert not (there / "results/preview/runs").exists() and path.exists()


@pytest.mark.parametrize(
    "record",
    [
        "",
        "[]",
        "{}",
        '{"description": 3}',
        '{"description": {}}',
        '{"description": {"scale": "preview", "protocol": [], "split": {}, "algorithm": null, "seed": "x"}}',
        '{"description": {"scale": "preview", "protocol": "../../x", "split": "..", "algorithm": "/", "seed": 1}}',
    ],
)
def test_a_record_that_is_none_is_named(machines, capsys, record):
    here, _ = machines
    shutil.copytree(here / run_folder("fedavg"), here / "other")
    (here / "other/run.json").write_text(record)
    assert flatfed("import", "other") == 2
    said = capsys.readouterr().err
    assert "other/run.json: not the record of a run" in said or "unknown protocol '../../x'" in said
    assert "Traceback" not in said and (here / "other/run.json").exists()


def changed(folder, **record) -> None:
    """Write the record in ``folder`` anew, with other values."""
    made.recorded(folder, lambda about: about.update(record))


def test_a_run_in_whose_place_another_stands_stays_and_the_others_are_taken(machines, monkeypatch, capsys):
    _, there = machines
    brought(machines, "brought")
    brought(machines, "other", "fedsmoo")
    monkeypatch.chdir(there)
    assert flatfed("import", "../other") == 0
    changed(run_folder("fedsmoo"), seconds=1.5)
    ours = Path(run_folder("fedsmoo"), "run.json").read_bytes()
    theirs = Path("../brought", run_folder("fedsmoo"))
    capsys.readouterr()
    assert flatfed("import", "../brought") == 2
    said = capsys.readouterr()
    assert "1 runs accepted" in said.out and f"{run_folder('fedsmoo')} exists already ({theirs})" in said.err
    assert "--replace" in said.err
    assert Path(run_folder("fedavg"), "run.json").exists()
    assert Path(run_folder("fedsmoo"), "run.json").read_bytes() == ours and (theirs / "run.json").exists()
    shutil.copytree(theirs, "alone")
    assert flatfed("import", "--replace", "alone") == 0
    assert records.read_finished(run_folder("fedsmoo")).seconds is None


def test_a_damaged_run_is_another_and_stays(machines, monkeypatch, capsys):
    _, there = machines
    brought(machines, "one", "fedsmoo")
    monkeypatch.chdir(there)
    assert flatfed("import", "../one") == 0
    with Path(run_folder("fedsmoo"), "metrics.csv").open("a") as file:
        file.write("9,0.9\n")
    assert flatfed("import", "../one") == 2
    assert "exists already" in capsys.readouterr().err
    assert flatfed("import", "--replace", "../one") == 0
    assert Path(run_folder("fedsmoo"), "metrics.csv").read_text().splitlines()[-1] != "9,0.9"


def test_a_run_without_its_model_is_copied_and_one_with_it_completes_it(machines, monkeypatch, capsys):
    here, there = machines
    shutil.copytree(here / run_folder("fedavg"), there.parent / "whole")
    Path(run_folder("fedavg"), "model.safetensors").unlink()
    brought(machines, "brought")
    monkeypatch.chdir(there)
    assert flatfed("import", "../brought") == 0
    said = capsys.readouterr().out
    assert "2 runs accepted" in said and not Path(run_folder("fedavg"), "model.safetensors").exists()
    assert flatfed("import", "../whole") == 0
    assert "0 runs accepted; 1 existed already" in capsys.readouterr().out
    assert flatfed("import", "--replace", "../whole") == 0
    assert Path(run_folder("fedavg"), "model.safetensors").exists() and Path("../whole/model.safetensors").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rounds_done": 1}, "metrics.csv: ends with round"),
        ({"partition_digest": "0" * 64}, "partition_digest is 000000000000, but that of results/preview/partitions/"),
        ({"versions": {"engine": 0}}, "--other-code accepts it"),
    ],
)
def test_every_run_that_does_not_pass_is_named_and_none_is_taken(machines, monkeypatch, capsys, change, words):
    here, there = machines
    for row in ("fedavg", "fedsmoo"):
        shutil.copytree(here / run_folder(row), there.parent / "made" / row)
        changed(there.parent / "made" / row, **change)
    shutil.copytree(here / run_folder("fedavg"), there.parent / "made" / "right")
    monkeypatch.chdir(there)
    assert flatfed("import", "../made") == 2
    said = capsys.readouterr().err
    assert said.count(words) == 2 and all(f"made/{row}" in said for row in ("fedavg", "fedsmoo"))
    assert not Path(run_folder("fedavg")).exists()


def test_of_two_runs_of_one_place_the_first_is_taken(machines, monkeypatch, capsys):
    here, there = machines
    for name in ("one", "same", "two"):
        shutil.copytree(here / run_folder("fedavg"), there.parent / "made" / name)
    changed(there.parent / "made/two", seconds=1.5)
    monkeypatch.chdir(there)
    assert flatfed("import", "../made") == 2
    said = capsys.readouterr()
    assert f"{run_folder('fedavg')} exists already (../made/two)" in said.err
    assert "1 runs accepted; 1 existed already" in said.out
    assert records.read_finished(run_folder("fedavg")).seconds is None


def test_all_that_is_needed_is_named_at_once_with_one_command(machines, monkeypatch, capsys, experiment):
    here, there = machines
    first = run_specs.run(experiment, "preview", PROTOCOL, SPLIT, "fedavg", 1)
    for seed in (2, 3):
        run = run_specs.run(experiment, "preview", PROTOCOL, SPLIT, "fedavg", seed)
        shutil.copytree(here / first.path, there.parent / "made" / str(seed))
        changed(there.parent / "made" / str(seed), description=run.config.as_json())
    shutil.rmtree(there / "resources")
    monkeypatch.chdir(there)
    assert flatfed("import", "../made") == 2
    said = capsys.readouterr().err
    partitions = [experiment.paths.partition("preview", PROTOCOL, SPLIT, seed) for seed in (2, 3)]
    assert "2 partitions are missing" in said and "flatfed table TABLE --runs FOLDER" in said
    files = f"{partitions[0]} {partitions[1]}"
    assert f"snakemake --cores 1 {files}" in said


def test_a_run_of_other_code_is_marked_and_the_mark_survives(machines, monkeypatch, capsys):
    """Tables average a marked run with others."""
    _, there = machines
    brought(machines, "brought")
    source = there.parent / "brought" / run_folder("fedavg")
    changed(source, versions={**records.read_finished(source).versions, "engine": 0}, unknown_key=1)
    monkeypatch.chdir(there)
    assert flatfed("import", "--other-code", "../brought") == 0
    marks = {row: records.read_finished(run_folder(row)).imported for row in ("fedavg", "fedsmoo")}
    assert marks == {"fedavg": "other code", "fedsmoo": None}
    assert read_json(Path(run_folder("fedavg"), "run.json"))["unknown_key"] == 1
    capsys.readouterr()
    assert flatfed("import", "--other-code", "../brought") == 0
    assert "2 existed already" in capsys.readouterr().out
    assert flatfed("status") == 0 and f"{run_folder('fedavg')}: engine is version 0, now 1" in capsys.readouterr().out
    shutil.copytree(run_folder("fedavg"), "moved")
    shutil.rmtree(run_folder("fedavg"))
    assert flatfed("import", "moved") == 2 and flatfed("import", "--other-code", "moved") == 0
    assert records.read_finished(run_folder("fedavg")).imported == "other code"
