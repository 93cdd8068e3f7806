"""``flatfed clean``.

Lists the results, datasets, logs and benchmarks that FlatFed wrote in the current folder; --yes deletes them.
results/published, config and your own files stay. Refused while a training runs.

example:
  python -m flatfed clean
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from flatfed.commands.arguments import flag
from flatfed.data import manifest
from flatfed.errors import FlatFedError
from flatfed.runs import lock
from flatfed.runs.paths import DEFAULT, SCALES

RESULTS = ("analysis", "cells", "figures", "partitions", "runs", "tables", "tuning", "report.html", "report.json")

ARGUMENTS = [flag("--yes", "delete the listed files")]


def run(options: argparse.Namespace) -> None:
    """Print FlatFed's files with their sizes; with ``--yes``, delete them; FlatFedError while a training runs."""
    resources, logs = Path(DEFAULT.resources), Path(DEFAULT.logs)
    paths = [Path(DEFAULT.results, scale, name) for scale in SCALES for name in RESULTS]
    paths += [Path(DEFAULT.errata), resources / "weights", logs / "errata.log"]
    paths += sorted(file.parent for file in resources.glob(f"*/{manifest.NAME}"))
    paths += [top / name for top in (logs, Path("benchmarks")) for name in (*SCALES, "fetch", "weights")]
    paths = [path for path in paths if path.exists()]
    for held in (file.parent for path in paths for file in path.rglob(lock.NAME) if lock.is_held(file.parent)):
        raise FlatFedError(f"{held}: a training is running; stop it first. Nothing was deleted")
    for path in paths:
        files = [file for file in (path, *path.rglob("*")) if file.is_file() and not file.is_symlink()]
        print(f"{sum(file.stat().st_size for file in files) / 1e6:10,.1f} MB  {path}")
        if options.yes:
            path.unlink() if path.is_symlink() or path.is_file() else shutil.rmtree(path)
    print(("deleted" if options.yes else "`flatfed clean --yes` deletes them") if paths else "nothing to delete")
