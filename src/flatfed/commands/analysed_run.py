"""Arguments and checks of commands that analyse the model of a finished run."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from typing import Any

from flatfed import gpus
from flatfed.commands import arguments, kinds
from flatfed.commands.arguments import argument
from flatfed.runs import record as records

ARGUMENTS = [
    argument("run", kinds.folder, "a finished run", metavar="RUN_FOLDER"),
    arguments.DATASET,
    arguments.PARTITION,
    *arguments.DEVICE,
]


@contextlib.contextmanager
def inputs(options: argparse.Namespace) -> Iterator[Any]:
    """Check run and device, then import torch; yield the inputs, with a GPU reserved until the end."""
    device = gpus.demanded(options.device)
    records.read_finished(options.run)
    with gpus.claimed() if device == "cuda" else contextlib.nullcontext():
        from flatfed.analysis.trained_model import AnalysisInputs

        yield AnalysisInputs(options.dataset, options.partition, device, options.threads)
