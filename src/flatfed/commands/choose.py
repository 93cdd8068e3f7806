"""``flatfed choose``.

Reads the runs of a hyper-parameter grid and records grid, accuracies and choice: the highest accuracy on the validation
parts. Test images are not used.

example:
  python -m flatfed choose fedsam-cifar10 dir0.6-100-p20 fedsam --out choice.json
"""

from __future__ import annotations

import argparse

from flatfed.commands import arguments, configuration
from flatfed.plan import tuning
from flatfed.tables import search

ARGUMENTS = [*arguments.ids("protocol", "split", "algorithm"), arguments.OUT, *arguments.JOB]


def run(options: argparse.Namespace) -> None:
    """Write the choice; ConfigError if the configuration declares no grid for these ids."""
    experiment = configuration.load(options.config)
    ids = (options.scale or experiment.scale, options.protocol, options.split, options.algorithm)
    catalog, paths = experiment.catalog, experiment.paths
    query = tuning.search_at(catalog, paths, *ids)
    choice = tuning.choice_spec(catalog, paths, query)
    search.make(choice, tuning.runs(catalog, paths, query), options.out)
