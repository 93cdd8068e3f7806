"""docs/results.md: as its script writes it, its readings by hand, its headline counted again from the metrics."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "studies"))
import results

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/results.md").read_text(encoding="utf-8")


def run(accuracies, algorithm="fedavg", finished=False, batch=50):
    """Return a run on 200 clients with these accuracies in percent."""
    described = {"split": "path3-200", "algorithm": algorithm, "seed": 1, "batch_size": batch}
    series = pd.Series(accuracies, index=range(1, len(accuracies) + 1), dtype=float)
    return results.Run(series, {"description": described, "precision": "float32"}, ROOT, finished)


def test_the_page_is_what_the_script_writes():
    runs = results.read()
    assert results.page(runs) == PAGE and results.page(runs, "readme") in (ROOT / "README.md").read_text(
        encoding="utf-8"
    )
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


def test_the_readings_of_a_straight_line_by_hand():
    """0.1 points a round: 68 % in round 680, the trailing mean of ten 4.5 rounds later, the centred one without lag."""
    line = run(np.arange(1, 801) / 10, finished=True)
    assert line.rounds_to(68) == [680, 680, 685]
    assert line.finals == pytest.approx([80.0, 79.55, 77.55])
    assert line.rounds_to(90) == [None, None, None]
    assert run([50.0] * 30).finals == [None, None, None]


@pytest.mark.parametrize(
    ("accuracy", "verdict"),
    [(71.86, "agrees"), (72.85, "agrees"), (72.87, "near"), (69.87, "near"), (69.85, "differs")],
)
def test_verdicts_on_the_accuracy(accuracy, verdict):
    assert run([accuracy] * 800, finished=True).verdict == verdict


@pytest.mark.parametrize(
    ("reached", "verdict"),
    [(397, "agrees"), (456, "agrees"), (457, "near"), (516, "near"), (517, "differs"), (270, "differs")],
)
def test_verdicts_on_the_rounds(reached, verdict):
    """FedAvg: 397 rounds are printed to 68 %, and 74 % is not reached."""
    step = run([60.0] * (reached - 1) + [70.0] * (801 - reached), finished=True)
    ours = step.rounds_to(68)[0]
    shift = ours - reached  # the centred mean of a step from 60 to 70 reaches 68 once 17 of its 21 rounds are behind it
    assert shift == 6
    moved = run([60.0] * (reached - 1 - shift) + [70.0] * (801 - reached + shift), finished=True)
    assert (moved.rounds_to(68)[0], moved.target_verdict(68), moved.target_verdict(74)) == (reached, verdict, "agrees")


def published(folder, *copies):
    """Copy FedCM's and FedAvg's published runs, and each (source, target) of ``copies``, into ``folder``."""
    column = results.PUBLISHED / "runs/path3-200"
    for source, target in [("fedcm/seed1", "fedcm/seed1"), ("fedavg/seed1", "fedavg/seed1"), *copies]:
        shutil.copytree(column / source, folder / "path3-200" / target)
    return folder


@pytest.mark.parametrize("target", ["fedcm/seed2", "fedsam/seed1", "elsewhere/fedcm/seed1"])
def test_a_copy_of_a_run_is_refused(tmp_path, target):
    with pytest.raises(ValueError, match="have the same metrics: remove the copy"):
        results.read(published(tmp_path, ("fedcm/seed1", target)))


def of(algorithm, seed=1, accuracy=70.0, split="path3-200", precision="float32", finished="2026-11-26"):
    """Return a finished run of 800 equal accuracies."""
    made = run([accuracy] * 800, algorithm, finished=True)
    made.about |= {"finished": finished, "tf32": precision == "TF32"}
    made.split, made.seed, made.precision = split, seed, precision
    return made


def test_a_row_counts_once_whatever_its_seeds_variants_and_precisions():
    """FedAvg (printed 71.86): seeds of 70.7 and 72.0 have a mean of 71.35; FedSMOO's second precision is a trial."""
    first, again = of("fedsmoo", accuracy=78.0), of("fedsmoo", accuracy=81.0, precision="TF32", finished="2026-11-27")
    variant = of("fedsmoo~rho0.05", accuracy=81.0)
    runs = [of("fedavg", accuracy=70.7), of("fedavg", seed=2, accuracy=72.0), again, first, variant, of("fedlesam")]
    assert [run.algorithm for run in results.column_runs(runs)] == ["fedavg", "fedavg", "fedsmoo"]
    text = results.page(runs, "readme")
    assert "**Two rows of eight are finished: 1 within 1 point" in text and "0 within 2, 1 further off" in text
    assert {trial[0]: trial[1] for trial in results.trials(runs)} == {again: first, variant: first}


def test_printed_numbers_are_those_of_the_run_s_split():
    """FedSMOO's Table 1 for FedAvg, and FedLESAM's Table 2 for a row that FedSMOO does not have."""
    assert results.printed("dir0.6-200", "fedavg")["accuracy"] == 75.90
    assert results.printed("path6-100", "fedavg")["accuracy"] == 79.91
    assert results.printed("path3-200", "fedlesam")["accuracy"] != results.printed("dir0.1-200", "fedlesam")["accuracy"]


def test_open_and_late_targets():
    assert run([60.0] * 526).target_verdict(68) == "", "516 rounds are within 30 % of 397, and ten follow the window"
    assert run([60.0] * 527).target_verdict(68) == "differs"
    assert run([60.0] * 800, finished=True).target_verdict(68) == "differs"
    assert run([75.0] * 40).target_verdict(74) == "differs", "print does not reach it"
    assert run([60.0] * 800, "fedadam", finished=True).target_verdict(68) == "omitted (B1)"


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
    sentence = 'can be judged: {agree} "agrees", {near} "near", {differ} "differs"'.format(**rounds)
    assert sentence in PAGE
    assert f"{len(rows)} finished 800 rounds" in PAGE
    assert 'Verdicts on the accuracy: {agree} "agrees", {near} "near", {differ} "differs"'.format(**accuracies) in PAGE
    assert len(re.findall(r"^\| FedAvg \|", PAGE, re.M)) >= 3
