"""Short timings for ``flatfed plan --calibrate``: one run of every kind that was never measured."""

from __future__ import annotations

from pathlib import Path

from flatfed.commands import time_run
from flatfed.commands.plan_costs import Costs, kind_of
from flatfed.errors import DataError
from flatfed.experiment import Experiment, Run


def calibrate(experiment: Experiment, costs: Costs, waiting: list[Run]) -> int:
    """Time two rounds of one run of each kind in ``waiting`` whose seconds are unknown; return how many were timed.

    They are written as calibration.json, beside the timing.json that tables of wall-clock times read: two rounds beside
    whatever else the machine does are enough for a plan, not for a table.

    :raises DataError: the run's data or partition have not been made.
    """
    count = 0
    for run in chosen(costs, waiting):
        manifest = Path("resources", run.dataset, "dataset.json")
        for path in (manifest, Path(run.partition)):
            if not path.exists():
                raise DataError(f"{path} is needed to time {run.path}; make it first: snakemake --cores 1 {path}")
        out = Path(run.path.replace("/runs/", "/analysis/", 1)).parent / "calibration.json"
        print(f"timing {run.protocol}/{run.split}/{run.algorithm}", flush=True)
        threads = 1 if run.scale == "preview" else experiment.config.get("threads", 1)
        place = {"device": costs.device, "threads": threads}
        time_run.write(run.description, manifest.parent, Path(run.partition), out, rounds=2, **place)
        count += 1
    return count


def chosen(costs: Costs, waiting: list[Run]) -> list[Run]:
    """Return one run for every kind of unknown seconds, the cheapest of its kind."""
    found: dict[tuple, Run] = {}
    for run in waiting:
        if costs.seconds(run)[1] == "unknown":
            kind = kind_of(run.description)
            if kind not in found or costs.images(run) < costs.images(found[kind]):
                found[kind] = run
    return list(found.values())
