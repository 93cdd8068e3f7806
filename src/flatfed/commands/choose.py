"""``flatfed choose``: of the runs that try a grid, the one with the best accuracy on the validation parts.

Reads the runs that tried them and records grid, accuracies and choice; the test images have no part in it.

example:
  python -m flatfed choose fedsam-cifar10 dir0.6-100-p20 fedsam --out choice.json
"""

from __future__ import annotations

import argparse

from flatfed.commands import arguments, configuration
from flatfed.experiment import tuning
from flatfed.experiment.model import digest
from flatfed.tables import search

ARGUMENTS = [*arguments.ids("protocol", "split", "algorithm"), arguments.OUT, *arguments.JOB]


def run(options: argparse.Namespace) -> None:
    """Choose the point of a grid.

    :raises ConfigError: nothing is tuned there.
    """
    experiment = configuration.load(options.config)
    ids = (options.scale or experiment.scale, options.protocol, options.split, options.algorithm)
    catalog, paths = experiment.catalog, experiment.paths
    choice = tuning.choice_spec(catalog, paths, tuning.search_at(catalog, paths, *ids))
    configuration.check_digest(digest(choice), options)
    search.make(choice, options.out)
