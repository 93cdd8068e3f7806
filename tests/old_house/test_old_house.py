"""FlatFed opens a folder that commit 72abba8b made (make.sh): no finished work is lost, every number stays."""

from __future__ import annotations

import csv
import json
import re
import shutil
import sys
import tarfile
from pathlib import Path

import pytest
import texts
from project import REPOSITORY, Project

from samples import full, sampled

HERE = Path(__file__).parent
STORED = json.loads((HERE / "72abba8b.json").read_text(encoding="utf-8"))

#: Commands of Snakemake's jobs that make what an earlier FlatFed finished.
LOSSES = {"fetch", "partition", "train", "time", "hessian", "surface"}

PREVIEW = "results/preview"
TABLES = ("fedsmoo2023_T1", "fedsmoo2023_T6", "house_T1", "house_T2", "house_T3")
FIGURES = ("house_F1", "house_F2")
CELLS = (
    f"{PREVIEW}/cells/fedsmoo2023_T1/cifar10-path3-100/fedsmoo.json",
    f"{PREVIEW}/cells/house_T2/digits-skewed.hessian_top_eigenvalue/fedmedian.json",
)
#: Targets that 72abba8b made.
FINISHED = ("--", "default", "tuning", *CELLS)
#: Options of the call that keeps finished work (CHANGELOG.md).
KEEP = ("--touch", "--notemp")
#: The two runs that kept their models. They have no Hessian.
MODELS = ("house/skewed/fedmedian/seed2", "fedsmoo-cifar10/path3-100/fedsmoo/seed2")

#: Calls several commands in one process; prints what each prints.
CALL = """
import contextlib, io, json, sys
from flatfed import cli

def text(words):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        if cli.main(words):
            sys.exit(f"flatfed {' '.join(words)} failed")
    return out.getvalue()

print(json.dumps([text(words) for words in json.loads(sys.argv[1])]))
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """The archive, unpacked over the present sources, after the call that keeps finished work."""
    project = Project.copied(tmp_path_factory.mktemp("house"))
    with tarfile.open(HERE / "72abba8b.tar.xz") as archive:
        archive.extractall(project.root, filter="data")
    project.make(*KEEP, *FINISHED)
    return project


@pytest.fixture(scope="module")
def present(house, tmp_path_factory):
    """A copy of the house without its runs, which are imported, and with new tables, cells, figures and a Hessian."""
    project = house.clone(tmp_path_factory.mktemp("present"))
    for part in (".snakemake", *(f"{PREVIEW}/{part}" for part in ("runs", "tables", "cells"))):
        shutil.rmtree(project.root / part)
    run = MODELS[0]
    inputs = ("--dataset", "resources/digits", "--partition", f"{PREVIEW}/partitions/house/skewed/seed2.npz")
    calls = (
        ("import", str(house.root / PREVIEW / "runs")),
        *(("table", table, "--out", f"{PREVIEW}/tables") for table in TABLES),
        *(("cell", *Path(cell).with_suffix("").parts[-3:], "--out", cell) for cell in CELLS),
        *(("figure", figure, "--out", f"{PREVIEW}/figures") for figure in FIGURES),
        ("report", "--out", f"{PREVIEW}/report.html"),
        ("hessian", f"{PREVIEW}/runs/{run}", *inputs, "--out", f"{PREVIEW}/analysis/{run}/hessian.json"),
        ("status",),
        ("verify", TABLES[0]),
        ("table", "house_T1", "--runs", "results"),
    )
    done = project.call(sys.executable, "-c", CALL, json.dumps(calls), env={"PYTHONPATH": str(project.root / "src")})
    assert done.returncode == 0, done.stderr
    project.imported, *_, project.status, project.verification, project.table = json.loads(done.stdout)
    return project


def test_no_finished_work_is_planned(house):
    new = {f"{PREVIEW}/analysis/{run}/hessian.json" for run in MODELS}
    planned = house.planned(*FINISHED, *new)
    lost = {command: sorted(planned[command] - new) for command in LOSSES & planned.keys()}
    assert lost == {"hessian": []}
    assert planned.keys() <= {"hessian", "table", "cell", "figure", "report", "errata", "choose"}


@full
def test_snakemake_notices_changes(house, tmp_path):
    """Snakemake has records of the finished jobs; without records, it plans no job."""
    project = house.clone(tmp_path / "changed")
    project.edit("mine/algorithms/_median.py", ("keepdim=True", "keepdim=bool(1)"))
    change = {"fedsmoo": {"rho": 0.05}}
    project.edit_yaml(
        "config/protocols/fedsmoo-cifar10.yaml", lambda content: content["preview"].update(algorithms=change)
    )
    planned = project.planned(*FINISHED)
    algorithms = {Path(run).parts[-2] for run in planned["train"] if "/runs/" in run}
    assert algorithms == {"fedsmoo", "fedmedian", "fedmedian~half"}
    assert {Path(file).parts[-2] for file in planned["time"]} == {"fedmedian"}
    assert LOSSES - planned.keys() == {"fetch", "partition"}


@full
def test_snakemake_rebuilds_all_in_one_call(house, tmp_path):
    project = house.clone(tmp_path / "rebuilt")
    assert "Train " not in project.make(*FINISHED).text
    assert project.planned(*FINISHED) == {}


def rows(path):
    """Return a file's content as dictionaries: the rows of a table, or a cell, without seal, headings and prints."""
    with path.open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file)) if path.suffix == ".csv" else [json.load(file)]
    changed = ("seal", "headers", "part", "paper_value", "paper_spread", "paper_decimals", "paper_note")
    return [{key: value for key, value in line.items() if key not in changed} for line in lines]


@pytest.mark.parametrize("file", [*(f"{PREVIEW}/tables/{table}.csv" for table in TABLES), *CELLS])
def test_tables_and_cells_have_the_same_numbers(file, house, present):
    before, after = (rows(project.root / file) for project in (house, present))
    assert [{key: new.get(key) for key in old} for old, new in zip(before, after, strict=True)] == before


def cell_texts(markdown):
    """Return the cell texts of the rows of a Markdown table, without its header."""
    return [re.split(r" *\| *", line) for line in markdown.splitlines() if line.startswith("|")][2:]


def test_commands_read_the_runs(house, present):
    assert "\n27 runs accepted" in present.imported
    assert "\n0 of 27 runs to make" in present.status
    assert "a preview is not compared with the paper" in present.verification
    stored = (house.root / PREVIEW / "tables/house_T1.md").read_text(encoding="utf-8")
    assert cell_texts(present.table) == cell_texts(stored)
    for name in (*(f"figures/{figure}.png" for figure in FIGURES), "report.html"):
        assert (present.root / PREVIEW / name).stat().st_size > 10_000, name


@pytest.mark.parametrize("scale", sampled(texts.SCALES, ["paper"]))
def test_jobs_have_the_same_params_and_inputs(scale):
    """Of all tables, figures and tuning choices that FlatFed ships."""
    planned = texts.read(REPOSITORY, "jobs", scale)
    changes = []
    for folder, digests in STORED["jobs"][scale].items():
        for name, before in digests.items():
            after = planned.get(folder, {}).get(name)
            if after is None:
                changes.append(f"{folder}/{name}: not planned")
            elif after != before:
                same_description = after.split()[1:] == before.split()[1:]
                changes.append(f"{folder}/{name}: {'params or inputs' if same_description else 'description'}")
    assert not changes, f"{len(changes)} jobs differ from 72abba8b:\n" + "\n".join(changes)


@pytest.mark.parametrize("step", sampled((20, 1), [20]))
def test_mistakes_have_the_same_messages(step):
    """Of each twentieth mistake, or of all."""
    present, compared = texts.read(REPOSITORY, "messages", str(step)), 0
    for kind, stored in STORED["messages"].items():
        names = stored.keys() & present[kind].keys()
        assert {name: present[kind][name] for name in names} == {name: stored[name] for name in names}, kind
        compared += len(names)
    assert compared > 150 / step
