"""``flatfed specify``: the specification of the report as a file, because it can be too long for a command line."""

from __future__ import annotations

import argparse

from flatfed import experiment, forms
from flatfed.commands import arguments
from flatfed.commands.configuration import HOME
from flatfed.files import write_json
from flatfed.runs.places import Places

DETAIL = "The specification that `report` takes: with every table it is longer than a shell's argument may be."
EXAMPLE = """python -m flatfed specify --scale preview --out report.json \\
    --configuration '{"scale": "preview", "tables": ["fedsmoo2023_T1"], "figures": []}'"""


def add(sub: argparse.ArgumentParser) -> None:
    """Add what the sub-command takes."""
    arguments.add_spec(sub, "--configuration", "the content of config.yaml, as merged with the command line")
    sub.add_argument("--scale", choices=("preview", "paper"), required=True, help="the scale")
    sub.add_argument("--results", default="results", metavar="DIR", help="folder of results (default: results)")
    sub.add_argument("--resources", default="resources", metavar="DIR", help="folder of data (default: resources)")
    arguments.add_path(sub, "--out", "FILE", "file to write")


def run(options: argparse.Namespace) -> None:
    """Write what ``flatfed report`` takes, whole.

    :raises ConfigError: the configuration is wrong.
    """
    places = Places(options.results, options.resources)
    spec = experiment.load(HOME, options.configuration, places).report_spec(options.scale)
    write_json(options.out, forms.plain(spec))
