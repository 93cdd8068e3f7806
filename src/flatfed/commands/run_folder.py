"""Which run a folder is."""

from __future__ import annotations

import re
from pathlib import Path

from flatfed.errors import DataError, unknown
from flatfed.experiment import SCALES, Experiment, Run

FOLDER = re.compile(
    r"(?:^|/)results/(?P<scale>[^/]+)/runs/(?P<protocol>[^/]+)/(?P<split>[^/]+)/(?P<algorithm>[^/]+)/seed(?P<seed>\d+)$"
)


def run_of(experiment: Experiment, folder: str | Path) -> Run:
    """Return the run that a path ``.../results/<scale>/runs/<protocol>/<split>/<algorithm>/seed<k>`` means.

    :raises DataError: the path is of another form.
    :raises ConfigError: the configuration has no such protocol, split or algorithm.
    """
    match = FOLDER.search(Path(folder).as_posix())
    if match is None:
        raise DataError(f"{folder}: a run folder is wanted: results/SCALE/runs/PROTOCOL/SPLIT/ALGORITHM/seedK")
    if match["scale"] not in SCALES:
        raise DataError(unknown("scale", match["scale"], SCALES, str(folder)))
    return experiment.run(*match.group("scale", "protocol", "split", "algorithm"), int(match["seed"]))
