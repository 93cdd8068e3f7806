"""What README and docs quote is what was published, and what they point to exists."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import made
from flatfed import algorithms, experiment
from flatfed.experiment import figure_specs, run_specs, scales
from flatfed.runs.identity import deciding_differences

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "results" / "published" / "cifar10-cnn"


PAGES = ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = [t for t in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in t]
    for target in targets:
        assert ((ROOT / page).parent / target).exists(), target


def test_the_numbers_of_the_readme_are_those_of_the_configuration():
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    configuration = experiment.load(ROOT)

    def runs(scale, asked):
        every = {
            run.path
            for table, columns in asked.tables
            for run in made.table_runs(configuration, scale, table, columns)
        }
        return len(every.union(*(figure_specs.figure_spec(configuration, scale, name).runs for name in asked.figures)))

    printed = [name for name in configuration.tables if re.fullmatch(r"d?fed[a-z]+20\d\d_T\d", name)]
    everything, selected = (
        scales.all_at(configuration, "preview"),
        scales.existing(configuration, configuration.scale, configuration.requested),
    )
    table = dict(selected.tables)["fedsmoo2023_T1"]
    paper = {run.path: run for run in made.table_runs(configuration, "paper", "fedsmoo2023_T1", table)}.values()
    of = configuration.tables["fedsmoo2023_T1"]
    rounds, seeds = ({run.description["rounds"] for run in paper}, {run.seed for run in paper})
    preview = run_specs.run(configuration, "preview", "fedsmoo-cifar10", "dir0.1-100", "fedsmoo", 1).description
    published = run_specs.run(configuration, "paper", "fedsmoo-cifar10", "path3-200", "fedavg", 1).description
    dealt, share = published["partition"], published["sampling"]["fraction"]
    needed = re.search(r'requires-python = ">=3.(\d+),<3.(\d+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for number in (
        f"{len(algorithms.names())} algorithms, {len(printed)} tables and {len(everything.figures)} figures",
        f"then trains {runs('preview', selected)} short runs",
        f"all tables and figures: {runs('preview', everything):,} short runs",
        f"trains {len(paper)} runs of {max(rounds)} rounds: {len(of.entries)} rows, {len(table)} of {len(of.columns)} "
        f"columns, {len(seeds)} seeds |",
        f"The eight rows are one of {len(of.columns)} columns",
        f"in a preview, `dir0.1-100` has {preview['partition']['clients']} clients",
        f"seed{{{','.join(map(str, sorted(seeds)))}}}/run.json",
        f"c = {dealt['classes_per_client']}), {100 * share:g} % of {dealt['clients']} clients, {max(rounds)} rounds",
        f"Python 3.{needed[1]} or 3.{int(needed[2]) - 1}",
        "four papers",
    ):
        assert number in text
    assert rounds == {published["rounds"]} and len({name.split("_")[0] for name in printed}) == 4


def test_published_runs_are_those_the_configuration_describes():
    configuration = experiment.load(ROOT)
    cells = list(csv.DictReader((PUBLISHED / "cifar10_cnn.csv").open(encoding="utf-8")))
    assert len(cells) == 48 and {cell["status"] for cell in cells} == {"ok"}
    records = sorted(PUBLISHED.rglob("run.json"))
    assert len(records) == 96
    for path in records:
        record = json.loads(path.read_text(encoding="utf-8"))
        about = record["description"]
        key = [about[name] for name in ("scale", "protocol", "split", "algorithm", "seed")]
        assert not deciding_differences(about, run_specs.run(configuration, *key).description)
        with (path.parent / "metrics.csv").open(encoding="utf-8", newline="") as file:
            last = list(csv.DictReader(file))[-1]
        assert int(last["round"]) == record["rounds_done"] == about["rounds"]


def test_published_numbers_are_the_mean_of_their_runs():
    for cell in csv.DictReader((PUBLISHED / "cifar10_cnn.csv").open(encoding="utf-8")):
        finals = []
        for seed in (1, 2):
            folder = PUBLISHED / "runs" / cell["column"] / cell["row"] / f"seed{seed}"
            with (folder / "metrics.csv").open(encoding="utf-8", newline="") as file:
                finals.append(float(list(csv.DictReader(file))[-1]["test_accuracy"]))
        assert float(cell["value"]) == pytest.approx(sum(finals) / 2, abs=1e-12)


@pytest.mark.skipif(Path(sys.prefix) != ROOT / ".venv", reason="another environment than `make quickstart` installs")
def test_both_ways_to_call_the_command_work_in_the_environment_that_make_installs(tmp_path):
    bare = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    for call in ([sys.executable, "-m", "flatfed"], [ROOT / ".venv/bin/flatfed"]):
        asked = subprocess.run([*call, "--help"], env=bare, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert asked.returncode == 0 and asked.stdout.startswith("usage: flatfed"), asked.stderr
