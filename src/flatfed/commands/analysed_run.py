"""What the commands take and check that compute something at the model of a finished run."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path

from flatfed import gpus
from flatfed.commands import arguments, kinds, run_record
from flatfed.runs import record as records


def add(sub: argparse.ArgumentParser, whose: str = "the run's own") -> None:
    """Add the run, its data set and its partition; ``whose`` the partition is, in words."""
    sub.add_argument("run", type=kinds.folder, metavar="RUN_FOLDER", help="a finished run")
    arguments.add_path(sub, "--dataset", "DIR", "folder that `fetch` made")
    arguments.add_path(sub, "--partition", "NPZ", f"file that `partition` made, {whose}")


@contextlib.contextmanager
def analysing(options: argparse.Namespace, *folders: Path) -> Iterator[str]:
    """Check what an analysis of the runs in ``folders`` begins with, without torch; yield the device to make it on.

    A GPU is held until the end.

    :raises DataError: a folder is without the record of a finished run.
    :raises FlatFedError: the device is not there.
    """
    device = gpus.demanded(options.device)
    for folder in folders:
        run_record.read(folder / records.RECORD)
    with gpus.claimed() if device == "cuda" else contextlib.nullcontext():
        yield device
