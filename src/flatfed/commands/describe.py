"""``flatfed describe``.

Prints the settings of runs, one line of JSON per folder, the input of `train`. The folder need not exist.

example:
  flatfed describe results/preview/runs/fedsmoo-cifar10/dir0.6-100/fedsmoo/seed1 > run.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from flatfed.commands import arguments, configuration
from flatfed.commands.arguments import argument
from flatfed.errors import DataError, unknown
from flatfed.plan import SCALES, Experiment, Run
from flatfed.runs.paths import RunIds

FOLDER = "results/SCALE/runs/PROTOCOL/SPLIT/ALGORITHM/seedK"

ARGUMENTS = [argument("folders", str, FOLDER, nargs="+", metavar="RUN_FOLDER"), arguments.CONFIG]


def run(options: argparse.Namespace) -> None:
    """Print the settings."""
    experiment = configuration.load(options.config)
    for folder in options.folders:
        print(json.dumps(run_of(experiment, folder).config.as_json(), sort_keys=True))


def run_of(experiment: Experiment, folder: str) -> Run:
    """Return the run of ``folder``: ``results/<scale>/runs/<protocol>/<split>/<algorithm>/seed<k>``.

    :raises DataError: the path has another form.
    :raises ConfigError: the configuration has no such protocol, split or algorithm.
    """
    scale = next(iter(Path(folder).parts[-6:-5]), "")
    ids = RunIds.of_folder(scale, folder)
    if scale not in SCALES:
        raise DataError(unknown("scale", scale, SCALES, folder))
    return experiment.run(**vars(ids))
