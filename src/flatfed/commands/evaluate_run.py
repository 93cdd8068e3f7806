"""``flatfed evaluate``: the model of a finished run, tested again."""

from __future__ import annotations

import argparse
import json

from flatfed.commands import analysed_run, arguments

DETAIL = "Prints test loss and test accuracy, computed anew from model.safetensors."
EXAMPLE = f"""\
python -m flatfed evaluate {arguments.RUN} \\
    --dataset resources/digits --partition {arguments.PARTITION}"""


def add(sub: argparse.ArgumentParser) -> None:
    """Add what the sub-command takes."""
    analysed_run.add(sub)
    arguments.add_device(sub)


def run(options: argparse.Namespace) -> None:
    """Print the scores as JSON."""
    analysed_run.check(options.run)
    from flatfed.engine.job.scores import evaluate

    place = {"device": options.device, "threads": options.threads}
    print(json.dumps(evaluate(options.run, options.dataset, options.partition, **place), indent=1))
