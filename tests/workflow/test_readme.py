"""Links lead somewhere, published runs are those of the configuration, and the command can be called."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flatfed import plan
from flatfed.plan import run_specs
from flatfed.runs.identity import deciding_differences
from flatfed.runs.run_config import RunConfig
from repository import ROOT

PUBLISHED = ROOT / "results" / "published" / "cifar10-cnn"


PAGES = ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = [t for t in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in t]
    for target in targets:
        assert ((ROOT / page).parent / target).exists(), target


def test_published_runs_are_those_the_configuration_describes():
    configuration = plan.load(ROOT)
    cells = list(csv.DictReader((PUBLISHED / "cifar10_cnn.csv").open(encoding="utf-8")))
    assert len(cells) == 48 and {cell["status"] for cell in cells} == {"ok"}
    records = sorted(PUBLISHED.rglob("run.json"))
    assert len(records) == 96
    for path in records:
        record = json.loads(path.read_text(encoding="utf-8"))
        config = RunConfig(**record["description"])
        assert not deciding_differences(config, run_specs.run(configuration, **vars(config.ids)).config)
        with (path.parent / "metrics.csv").open(encoding="utf-8", newline="") as file:
            last = list(csv.DictReader(file))[-1]
        assert int(last["round"]) == record["rounds_done"] == config.rounds


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
