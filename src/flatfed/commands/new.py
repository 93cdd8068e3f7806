"""``flatfed new``.

Copies docs/my-paper: a folder with an algorithm, a table, curves, a sweep, a test, and a README with the commands.
`folders` of config.yaml names such folders.

example:
  python -m flatfed new my-paper
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
    readme = folder / "README.md"
    readme.write_text(readme.read_text(encoding="utf-8").replace(TEMPLATE.name, str(folder)), encoding="utf-8")
    print(f"{folder}: written; {readme} has the commands")
