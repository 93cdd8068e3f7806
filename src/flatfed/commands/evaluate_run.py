"""``flatfed evaluate``: the model of a finished run, tested again."""

from __future__ import annotations

import argparse
import json

from flatfed.commands import arguments, kinds, run_record

DETAIL = "Prints test loss and test accuracy, computed anew from model.safetensors."
EXAMPLE = f"""\
python -m flatfed evaluate {arguments.RUN} \\
    --dataset resources/digits --partition {arguments.PARTITION}"""


def add(sub: argparse.ArgumentParser) -> None:
    """Add what the sub-command takes."""
    sub.add_argument("run", type=kinds.folder, metavar="RUN_FOLDER", help="a finished run")
    arguments.add_path(sub, "--dataset", "DIR", "folder that `fetch` made")
    arguments.add_path(sub, "--partition", "NPZ", "file that `partition` made")
    arguments.add_device(sub)


def run(options: argparse.Namespace) -> None:
    """Print the scores as JSON."""
    run_record.read(options.run / "run.json")
    from flatfed.engine.job.scores import evaluate

    place = {"device": options.device, "threads": options.threads}
    print(json.dumps(evaluate(options.run, options.dataset, options.partition, **place), indent=1))
