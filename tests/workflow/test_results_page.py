"""docs/results.md: as its script writes it, its headline counted again from the metrics."""

from __future__ import annotations

import hashlib
from collections import Counter

import numpy as np
import pandas as pd
from PIL import Image

import results
from repository import ROOT
from samples import full

PAGE = (ROOT / "docs/results.md").read_text(encoding="utf-8")


@full
def test_the_page_is_what_the_script_writes():
    ours = results.Results()
    assert results.page(ours) == PAGE
    assert results.page(ours, "readme") in (ROOT / "README.md").read_text(encoding="utf-8")
    digest = hashlib.sha256(PAGE.encode()).hexdigest()
    for name in ("results.png", "results-curves.png", "finished-column.png"):
        with Image.open(ROOT / "docs" / name) as picture:
            assert picture.info["flatfed"] == digest, f"docs/{name} is older: python studies/results.py"


#: Rounds to targets and final accuracies that Tables 6 and 1 print; FedAdam's rounds to 68 % are not printed.
TARGETS = {
    "fedavg": {68: 397, 74: None}, "fedsmoo": {68: 239, 74: 330}, "fedcm": {68: 167, 74: 438},
    "feddyn": {68: 234, 74: 599}, "mofedsam": {68: 170, 74: 355}, "scaffold": {68: 352, 74: 674},
    "fedsam": {68: 419, 74: None}, "fedadam": {74: None},
}  # fmt: skip
FINALS = {"fedavg": 71.86, "fedsmoo": 81.01, "fedcm": 76.72, "feddyn": 74.93, "mofedsam": 79.93, "scaffold": 74.05,
          "fedsam": 72.41, "fedadam": 70.49}  # fmt: skip


def verdict(distance, agrees, near):
    return "agrees" if distance <= agrees else "near" if distance <= near else "differs"


def test_the_headline_counts_the_published_runs():
    """Counted again without the script: by numpy, from the metrics' files and the printed numbers."""
    rounds, accuracies, rows = Counter(), Counter(), set()
    for name, printed in FINALS.items():
        files = sorted((ROOT / "results/published/fedsmoo-cifar10/runs/path3-200" / name).glob("seed*/run*.json"))
        tables = [file.with_name(file.name.replace("run", "metrics").replace("json", "csv")) for file in files]
        seeds = [100 * pd.read_csv(table)["test_accuracy"].to_numpy() for table in tables]
        finished = {file.name for file in files} == {"run.json"}
        if finished:
            assert {len(ours) for ours in seeds} == {800}
            rows.add(name)
            accuracies[verdict(abs(np.mean([ours[-50:] for ours in seeds]) - printed), 1, 2)] += 1
        smooth = [np.convolve(ours, np.ones(21) / 21, "valid") if len(ours) > 20 else np.array([]) for ours in seeds]
        for target, theirs in TARGETS[name].items():
            crossed = [np.flatnonzero(of_seed >= target) for of_seed in smooth]
            reached = np.mean([first[0] for first in crossed]) + 11 if all(map(len, crossed)) else None
            if theirs is not None and reached:
                rounds[verdict(abs(reached - theirs) / theirs, 0.15, 0.3)] += 1
            elif theirs is not None:
                rounds["differs"] += finished or min(map(len, seeds)) - 10 > 1.3 * theirs
            elif reached or finished:
                rounds["differs" if reached else "agrees"] += 1
        if name == "fedavg":
            mean = np.mean([ours[-50:] for ours in seeds])
            assert f"| FedAvg | 2 | bfloat16 and TF32 | 71.86 | {mean:.2f} (71.02, 70.88) | agrees |" in PAGE
    assert "Tables finished: 0 of 20" in PAGE, "24 tables of four papers, and four of them print settings"
    words = ("agrees", "near", "differs")
    counts = [", ".join(f'{count[word]} "{word}"' for word in words) for count in (rounds, accuracies)]
    for words in (f"74 %: {counts[0]}", f"Verdicts on the accuracy: {counts[1]}", f"{len(rows)} finished 800 rounds"):
        assert words in PAGE
