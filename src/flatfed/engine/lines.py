"""A line of metrics.csv: what stands in it, in which order."""

from __future__ import annotations

from typing import Any

#: Columns that every run has; ``unseen`` is "test", or "validation" where images are held out to choose by.
COLUMNS = (
    *("round", "learning_rate", "train_loss", "{unseen}_loss", "{unseen}_accuracy", "clients", "consistency"),
    *("download_bytes", "upload_bytes", "seconds"),
)


def columns(unseen: str) -> list[str]:
    """Return the names of the columns that every run has."""
    return [name.format(unseen=unseen) for name in COLUMNS]


def ordered(values: dict[str, Any], unseen: str) -> dict[str, Any]:
    """Return the ``values`` of a line, those that every run has first."""
    first = {name: values[name] for name in columns(unseen)}
    return first | {name: value for name, value in values.items() if name not in first}
