"""``flatfed figure``.

Draws the figure from the runs, partitions and analyses in results/. The .txt next to it counts missing ones.

example:
  flatfed figure fedsmoo2023_F7 --out out
"""

from __future__ import annotations

import argparse

from flatfed.commands import arguments, configuration
from flatfed.plan import at_scale

ARGUMENTS = [*arguments.ids("figure"), arguments.OUT_FOLDER, *arguments.JOB]


def run(options: argparse.Namespace) -> None:
    """Write the figure; DataError with a line for each refused run."""
    experiment = configuration.load(options.config)
    spec = at_scale.figure(experiment, options.scale or experiment.scale, options.figure)
    from flatfed import figures  # imports matplotlib

    figures.make(spec, options.out)
