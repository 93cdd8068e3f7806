"""What the commands take and check that compute something at the model of a finished run."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator

from flatfed import gpus
from flatfed.commands import arguments, kinds, run_folders
from flatfed.commands.arguments import argument
from flatfed.runs import record as records

#: The run and its data set.
ARGUMENTS = [argument("run", kinds.folder, "a finished run", metavar="RUN_FOLDER"), arguments.DATASET]


@contextlib.contextmanager
def analysing(options: argparse.Namespace) -> Iterator[str]:
    """Check what the analysis of a run begins with, without torch; yield the device to make it on.

    A GPU is held until the end.

    :raises DataError: the folder is without the record of a finished run.
    :raises FlatFedError: the device is not there.
    """
    device = gpus.demanded(options.device)
    run_folders.read_record(options.run / records.RECORD)
    with gpus.claimed() if device == "cuda" else contextlib.nullcontext():
        yield device
