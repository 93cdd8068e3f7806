"""Short timings for ``flatfed plan --calibrate``: one run of every kind that was never measured."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from flatfed.commands import time_run
from flatfed.commands.plan_costs import Costs
from flatfed.commands.plan_counted import images_seen, kind_of
from flatfed.experiment import Experiment, Run


def calibrate(experiment: Experiment, costs: Costs, waiting: list[Run]) -> int:
    """Time two rounds of one run of each kind in ``waiting`` whose seconds are unknown; return how many were timed.

    They are written as calibration.json, beside the timing.json that tables of wall-clock times read: two rounds beside
    whatever else the machine does are enough for a plan, not for a table. A run whose data or partition have not been
    made is named and left out.
    """
    count = 0
    for run in chosen(costs, waiting):
        manifest = Path(run.manifest)
        needed = (manifest, Path(run.partition), *([Path(run.weights)] if run.weights else []))
        absent = [str(path) for path in needed if not path.exists()]
        if absent:
            made = " ".join(absent)
            print(f"{run.path} cannot be timed before its data are there: snakemake --cores 1 {made}", file=sys.stderr)
            continue
        print(f"timing {run.protocol}/{run.split}/{run.algorithm}", flush=True)
        threads = 1 if run.scale == "preview" else experiment.config.get("threads", 1)
        place = {"device": costs.device, "threads": threads, "weights": run.weights}
        time_run.write(run.description, manifest.parent, Path(run.partition), Path(run.calibration), rounds=2, **place)
        count += 1
    return count


def chosen(costs: Costs, waiting: list[Run]) -> list[Run]:
    """Return one run of every kind whose seconds are unknown: the cheapest one whose partition is there, if any."""
    by_kind: dict[tuple[Any, ...], list[Run]] = {}
    for run in waiting:
        if costs.seconds(run).way == "unknown":
            by_kind.setdefault(kind_of(run.description), []).append(run)
    return [
        min(runs, key=lambda run: (not Path(run.partition).exists(), images_seen(run.description, costs.datasets)))
        for runs in by_kind.values()
    ]
