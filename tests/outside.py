"""Algorithms in files of a folder of a test's own, found as a user's are."""

from __future__ import annotations

import sys
from pathlib import Path

from flatfed import algorithms

HEAD = """from flatfed.algorithms import Algorithm, Number, Whole
from flatfed.algorithms.dfedavg import DFedAvg
from flatfed.algorithms.fedavg import FedAvg


"""


class Outside:
    """A folder of algorithms: each file is written when it is given."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir()
        algorithms.look_in([folder], "a test")

    def write(self, name: str, text: str) -> Path:
        """Write the file of algorithm ``name``, the imports that it needs before ``text``; return its path."""
        path = self.folder / f"{name}.py"
        path.write_text(HEAD + text)
        return path

    def forget(self) -> None:
        """Drop what was imported from here."""
        for path in self.folder.glob("*.py"):
            sys.modules.pop(f"flatfed.algorithms.{path.stem}", None)
            vars(algorithms).pop(path.stem, None)
