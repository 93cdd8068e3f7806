"""``clients.csv``: the accuracy of a run's model on test images of each client, and summaries. Needs no torch."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flatfed.errors import DataError
from flatfed.files import write_whole

#: Increased when the fields or their values change.
VERSION = 2
FIELDS = ("client", "train_images", "test_images", "accuracy", "model_sha256")


def write(path: str | os.PathLike[str], lines: Iterable[Sequence[Any]], model: str) -> None:
    """Write ``lines``, the fields before the digest of the ``model`` file, to ``path``, atomically."""
    with write_whole(path, "w") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        writer.writerows((*line, model) for line in lines)


def read(path: str | os.PathLike[str]) -> tuple[Mapping[str, float], str]:
    """Return client or summary -> accuracy, a fraction, and the digest of the model file.

    :raises DataError: another file, or one without digests.
    """
    try:
        with open(path, newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
        return {line["client"]: float(line["accuracy"]) for line in lines}, lines[-1]["model_sha256"]
    except (IndexError, KeyError, TypeError, ValueError):
        problem = f"not a table of clients with {', '.join(FIELDS)}; delete it; the next call rebuilds it"
        raise DataError(f"{path}: {problem}") from None
