"""``flatfed import``: runs of another machine are checked, then copied, all or none; existing runs stay."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import made
from flatfed.commands import configuration
from flatfed.data import partition
from flatfed.engine import versions
from flatfed.files import read_json
from flatfed.runs import lock
from flatfed.runs import record as records
from shipped import EXP
from small_results import flatfed

PROTOCOL, SPLIT = "fedsmoo-cifar10", "dir0.6-100"
CONFIG = "scale: preview\nseeds: [1]\nfigures: []\ntables: [{table: fedsmoo2023_T1, columns: [cifar10-dir0.6-100]}]\n"
FEDAVG, FEDSMOO = (Path(f"results/preview/runs/{PROTOCOL}/{SPLIT}/{row}/seed1") for row in ("fedavg", "fedsmoo"))


def run(row: str, seed: int = 1):
    return EXP.run("preview", PROTOCOL, SPLIT, row, seed)


@pytest.fixture(scope="module")
def made_once(tmp_path_factory):
    """Two machines ``here`` and ``there`` with the digits and the partition of seed 1; ``here`` has two runs of it."""
    root = tmp_path_factory.mktemp("machines")
    path = Path(run("fedavg").partition)
    spec = EXP.partition_spec("preview", PROTOCOL, SPLIT, 1).as_written()
    with pytest.MonkeyPatch.context() as patch:
        (root / "here").mkdir()
        patch.chdir(root / "here")
        Path("config.yaml").write_text(CONFIG)
        data = json.dumps(EXP.catalog.dataset_spec("digits").as_written())
        flatfed("fetch", "--spec", data, "--out", "resources/digits")
        flatfed("partition", "--spec", json.dumps(spec), "--dataset", "resources/digits", "--out", str(path))
        shutil.copytree(root / "here", root / "there")
        digests = {"dataset_digest": read_json("resources/digits/dataset.json")["digest"]}
        digests["partition_digest"] = partition.load(path).digest
        for row in ("fedavg", "fedsmoo"):
            config = run(row).config
            folder = Path(run(row).path)
            folder.mkdir(parents=True)
            (folder / "model.safetensors").write_bytes(row.encode() * 100)
            columns = {"round": [1, config.rounds], "test_accuracy": [0.1, 0.2]}
            made.run(folder, columns, settings=config.as_json(), versions=versions.of_run(config), **digests)
        experiment = configuration.load(["config.yaml"])
    return root, experiment


@pytest.fixture(autouse=True)
def there(made_once, tmp_path, monkeypatch):
    """The current folder: the machine ``there``; ``../here`` is next to it."""
    root, experiment = made_once
    shutil.copytree(root, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path / "there")
    monkeypatch.setattr(configuration, "load", lambda parts: experiment)


def copy(folder: Path, name: str) -> Path:
    """Copy a run of the machine ``here`` to the folder ``name``, as tar would; return the copy."""
    return shutil.copytree(Path("../here", folder), name)


def brought(name: str = "../brought") -> str:
    """Copy both runs into a folder ``name`` next to both machines; return it."""
    return str(shutil.copytree("../here/results", name))


def changed(folder: Path, **record) -> None:
    """Write other values into the record in ``folder``, with a valid seal."""
    made.recorded(folder, lambda about: about.update(record))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_runs_are_copied_without_other_files_and_stay_if_they_exist_already(call):
    brought()
    source = Path("../brought", *FEDAVG.parts[1:])
    (source / "notes.txt").write_text("mine")
    (source / "checkpoint").mkdir()
    status, out, _ = call("import", "../brought")
    assert status == 0 and "2 runs accepted" in out
    for folder in (FEDAVG, FEDSMOO):
        assert contents(folder) == contents(Path("../here", folder)) and set(contents(folder)) == set(records.FILES)
    before = (FEDAVG / "run.json").stat().st_mtime_ns
    status, out, _ = call("import", "../brought")
    assert status == 0 and "0 runs accepted; 2 existed already" in out
    assert (FEDAVG / "run.json").stat().st_mtime_ns == before


def test_a_run_that_another_process_trains_is_not_replaced(call, monkeypatch):
    assert call("import", brought())[0] == 0
    (FEDAVG / ".checkpoint").mkdir()
    (FEDAVG / ".checkpoint/state").write_text("of the training")
    monkeypatch.setattr(lock, "PATIENCE", 0.0)
    with lock.held(FEDAVG):
        before = {path: path.stat().st_mtime_ns for path in FEDAVG.rglob("*")}
        status, out, err = call("import", "--replace", "../brought")
        assert {path: path.stat().st_mtime_ns for path in FEDAVG.rglob("*")} == before
    assert status == 2 and f"{FEDAVG}: another process trains this run (process {os.getpid()} on " in err
    assert f"{FEDSMOO}: accepted" in out
    assert call("import", "--replace", "../brought")[0] == 0
    assert set(contents(FEDAVG)) == set(records.FILES) and [path.name for path in FEDAVG.parent.iterdir()] == ["seed1"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("metrics.csv", "restore the original file"),
        ("model.safetensors", "restore the original file"),
        ("unfinished", "run.json: unfinished: 1 of "),
        ({"partition_digest": "0" * 64}, "partition_digest is 000000000000, but that of results/preview/partitions/"),
        ({"versions": {"engine": 0}}, "--other-code accepts it"),
    ],
)
def test_every_run_that_fails_a_check_is_named_and_none_is_copied(call, change, words):
    folders = copy(FEDAVG, "../made/fedavg"), copy(FEDSMOO, "../made/fedsmoo")
    copy(FEDAVG, "../made/right")
    for folder in map(Path, folders):
        if change == "unfinished":
            (folder / "metrics.csv").write_text("round,test_accuracy\n1,0.1\n")
            changed(folder, rounds_done=1)
        elif isinstance(change, dict):
            changed(folder, **change)
        else:
            content = (folder / change).read_bytes()
            (folder / change).write_bytes(content[:-9].replace(b"1", b"2") + content[-9:-1] + b" ")
    status, _, err = call("import", "../made")
    assert status == 2 and err.count(words) == 2 and "made/right" not in err
    assert "made/fedavg" in err and "made/fedsmoo" in err and not Path("results/preview/runs").exists()


@pytest.mark.parametrize("damage", [False, True])
def test_another_or_damaged_run_in_its_place_stays_and_the_others_are_copied(call, damage):
    copy(FEDSMOO, "../one")
    assert call("import", "../one")[0] == 0
    if damage:
        (FEDSMOO / "metrics.csv").write_text("round\n9\n")
    else:
        changed(FEDSMOO, seconds=1.5)
    before = contents(FEDSMOO)
    status, out, err = call("import", brought())
    assert status == 2 and "1 runs accepted" in out and (FEDAVG / "run.json").exists()
    assert f"{FEDSMOO} exists already (../brought/" in err and "--replace" in err
    assert contents(FEDSMOO) == before
    assert call("import", "--replace", "../one")[0] == 0 and contents(FEDSMOO) == contents(Path("../one"))


def test_a_run_without_its_model_is_copied_and_replaced_by_one_with_it(call):
    copy(FEDAVG, "../whole")
    Path("../here", FEDAVG, "model.safetensors").unlink()
    status, out, _ = call("import", brought())
    assert status == 0 and "2 runs accepted" in out and not (FEDAVG / "model.safetensors").exists()
    assert "0 runs accepted; 1 existed already" in call("import", "../whole")[1]
    assert call("import", "--replace", "../whole")[0] == 0
    assert contents(FEDAVG) == contents(Path("../whole"))


def test_all_missing_partitions_are_named_with_one_command(call):
    for seed in (2, 3):
        changed(Path(copy(FEDAVG, f"../made/{seed}")), description=run("fedavg", seed).config.as_json())
    shutil.rmtree("resources")
    status, _, err = call("import", "../made")
    assert status == 2 and "2 partitions are missing" in err and "flatfed table TABLE --runs FOLDER" in err
    assert f"snakemake --cores 1 {run('fedavg', 2).partition} {run('fedavg', 3).partition}" in err


def test_a_run_of_other_code_is_marked_and_the_mark_survives(call):
    """Tables average a marked run with others."""
    source = Path(brought(), *FEDAVG.parts[1:])
    changed(source, versions={**records.read_finished(source).versions, "engine": 0}, unknown_key=1)
    assert call("import", "--other-code", "../brought")[0] == 0
    assert [records.read_finished(folder).imported for folder in (FEDAVG, FEDSMOO)] == ["other code", None]
    assert read_json(FEDAVG / "run.json")["unknown_key"] == 1
    assert "2 existed already" in call("import", "--other-code", "../brought")[1]
    assert f"{FEDAVG}: engine is version 0, now 1" in call("status")[1]
    shutil.move(FEDAVG, "moved")
    assert call("import", "moved")[0] == 2 and call("import", "--other-code", "moved")[0] == 0
    assert records.read_finished(FEDAVG).imported == "other code"
