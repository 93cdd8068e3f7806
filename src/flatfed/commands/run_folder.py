"""Which run a folder is."""

from __future__ import annotations

import re
from pathlib import Path

from flatfed.errors import DataError, unknown
from flatfed.experiment import SCALES, Experiment, Run, tuning

FOLDER = re.compile(
    r"(?:^|/)results/(?P<scale>[^/]+)/(?P<kind>runs|tuning)/(?P<protocol>[^/]+)/(?P<split>[^/]+)/(?P<algorithm>[^/]+)/"
    r"(?:seed(?P<seed>\d+)|(?P<point>[^/]*=[^/]*))$"
)


def run_of(experiment: Experiment, folder: str | Path) -> Run:
    """Return the run that a path ``.../results/<scale>/runs/<protocol>/<split>/<algorithm>/seed<k>`` means.

    With ``tuning`` in place of ``runs``, a point of the grid stands in place of the seed: a tuning run.

    :raises DataError: the path is of another form.
    :raises ConfigError: the configuration has no such protocol, split, algorithm or point.
    """
    match = FOLDER.search(Path(folder).as_posix())
    if match is None or (match["kind"] == "tuning") != (match["point"] is not None):
        raise DataError(f"{folder}: a run folder is wanted: results/SCALE/runs/PROTOCOL/SPLIT/ALGORITHM/seedK")
    if match["scale"] not in SCALES:
        raise DataError(unknown("scale", match["scale"], SCALES, str(folder)))
    ids = match.group("scale", "protocol", "split", "algorithm")
    if match["point"] is not None:
        return tuning.run(experiment, tuning.named(experiment, *ids), match["point"])
    return experiment.run(*ids, int(match["seed"]))
