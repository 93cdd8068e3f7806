"""``flatfed new``.

Copies docs/my-paper: an algorithm, its test, tables, figures and a paper. `folders` of config.yaml names such folders;
docs/from-method-to-camera-ready.md has the commands.

example:
  flatfed new my-paper
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from flatfed.commands import arguments, configuration
from flatfed.commands.arguments import argument
from flatfed.errors import DataError

ARGUMENTS = [argument("folder", arguments.folder, "the new folder", metavar="FOLDER")]

TEMPLATE = Path("docs/my-paper")


def run(options: argparse.Namespace) -> None:
    """Write the folder; DataError if it exists."""
    folder = options.folder
    if folder.exists():
        raise DataError(f"{folder}: exists already; name a new folder")
    shutil.copytree(configuration.home() / TEMPLATE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    print(f"{folder}: written; docs/from-method-to-camera-ready.md has the commands")
