"""docs/results.md: as its script writes it, its headline counted again from the metrics."""

from __future__ import annotations

import hashlib
import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import results
from repository import ROOT
from samples import sampled

COPIES = ["fedcm/seed2", "fedsam/seed1", "elsewhere/fedcm/seed1"]
PAGE = (ROOT / "docs/results.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def ours():
    return results.Results()


def test_the_page_is_what_the_script_writes(ours):
    assert results.page(ours) == PAGE
    assert results.page(ours, "readme") in (ROOT / "README.md").read_text(encoding="utf-8")
    digest = hashlib.sha256(PAGE.encode()).hexdigest()
    for name in ("results.png", "results-curves.png"):
        with Image.open(ROOT / "docs" / name) as picture:
            assert picture.info["flatfed"] == digest, f"docs/{name} is older: python studies/results.py"


@pytest.mark.parametrize(
    ("files", "rounds"),
    [
        (["runs/path3-200/feddyn/seed1/metrics.csv", "repeated/feddyn-h200.csv"], 523),
        (["repeated/fedadam-h200.csv", "repeated/fedadam-h100.csv"], 303),
    ],
)
def test_two_gpus_gave_the_same_digits(files, rounds):
    folder = ROOT / "results/published/fedsmoo-cifar10"
    lines, again = (pd.read_csv(folder / file, dtype=str).drop(columns="seconds") for file in files)
    assert len(again) == rounds and lines[:rounds].equals(again)


@pytest.mark.parametrize("target", sampled(COPIES, COPIES[:1]))
def test_a_copy_of_a_run_is_refused(tmp_path, monkeypatch, target):
    column = results.PUBLISHED / "runs/path3-200/fedcm/seed1"
    for folder in ("fedcm/seed1", target):
        shutil.copytree(column, tmp_path / "path3-200" / folder)
    monkeypatch.setattr(results, "TABLES", results.TABLES[:2])
    with pytest.raises(ValueError, match="have the same metrics: remove the copy"):
        results.Results(tmp_path)


def test_the_headline_counts_the_published_runs():
    """Counted again without the script: by numpy, from the metrics' files and the printed numbers of Tables 1 and 6."""
    targets = {
        "fedavg": (397, None), "fedsmoo": (239, 330), "fedcm": (167, 438), "feddyn": (234, 599),
        "mofedsam": (170, 355), "scaffold": (352, 674), "fedsam": (419, None), "fedadam": (None, None),
    }  # fmt: skip
    finals = {"fedavg": 71.86, "fedsmoo": 81.01, "fedcm": 76.72, "feddyn": 74.93, "mofedsam": 79.93, "scaffold": 74.05,
              "fedsam": 72.41, "fedadam": 70.49}  # fmt: skip
    rounds, accuracies, rows = {"agree": 0, "near": 0, "differ": 0}, {"agree": 0, "near": 0, "differ": 0}, set()
    for record in (ROOT / "results/published/fedsmoo-cifar10").rglob("path3-200/*/seed*/run*.json"):
        name = json.loads(record.read_text())["description"]["algorithm"]
        metrics = np.loadtxt(record.with_name(record.name.replace("run", "metrics").replace("json", "csv")),
                             delimiter=",", skiprows=1, usecols=(0, 4), ndmin=2)  # fmt: skip
        ours, finished = 100 * metrics[:, 1], record.name == "run.json"
        assert len(ours) == 800 or not finished
        if finished:
            rows.add(name)
            off = abs(ours[-50:].mean() - finals[name])
            accuracies["agree" if off <= 1 else "near" if off <= 2 else "differ"] += 1
        smooth = np.convolve(ours, np.ones(21) / 21, "valid") if len(ours) > 20 else np.array([])
        for target, theirs in zip((68, 74), targets[name], strict=True):
            crossed = np.flatnonzero(smooth >= target)
            reached = crossed[0] + 11 if len(crossed) else None
            if (name, target) == ("fedadam", 68):
                continue
            if theirs is None:
                rounds["differ"] += reached is not None
                rounds["agree"] += reached is None and finished
            elif reached is not None:
                share = abs(reached - theirs) / theirs
                rounds["agree" if share <= 0.15 else "near" if share <= 0.3 else "differ"] += 1
            else:
                rounds["differ"] += finished or len(ours) - 10 > 1.3 * theirs
    sentence = '74 %: {agree} "agrees", {near} "near", {differ} "differs"'.format(**rounds)
    assert sentence in PAGE
    assert f"{len(rows)} finished 800 rounds" in PAGE
    assert 'Verdicts on the accuracy: {agree} "agrees", {near} "near", {differ} "differs"'.format(**accuracies) in PAGE
    assert len(re.findall(r"^\| FedAvg \|", PAGE, re.M)) >= 3
