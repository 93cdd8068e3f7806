"""``flatfed schema``.

Writes the JSON schemas of the YAML files for editors: completion and explanation of keys while you type. The first line
of each file in config names its schema. workflow/schemas has a link to that of config.yaml, which Snakemake's catalogue
of workflows shows.

example:
  flatfed schema
"""

from __future__ import annotations

import argparse
from pathlib import Path

from flatfed.commands import arguments
from flatfed.commands.arguments import argument
from flatfed.config import algorithm, datasets, erratum, figure, protocol, request, split, table
from flatfed.files import write_json

ARGUMENTS = [argument("--out", arguments.folder, "the folder", metavar="FOLDER", default=Path("config/.schema"))]

SCHEMAS = {
    "algorithms": algorithm.ALGORITHMS,
    "config": request.REQUEST,
    "datasets": datasets.DATASETS,
    "errata": erratum.ERRATA,
    "figure": figure.FIGURE,
    "protocol": protocol.PROTOCOL,
    "splits": split.SPLITS,
    "table": table.TABLE,
}


def run(options: argparse.Namespace) -> None:
    """Write the schemas."""
    options.out.mkdir(parents=True, exist_ok=True)
    for name, content in SCHEMAS.items():
        write_json(options.out / f"{name}.json", content.json_schema)
        print(options.out / f"{name}.json")
