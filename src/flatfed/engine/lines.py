"""The lines of metrics.csv."""

from __future__ import annotations


def columns(unseen: str) -> list[str]:
    """Return the columns of every run; ``unseen`` is "test", or "validation" for a tuning run."""
    names = f"round learning_rate train_loss {unseen}_loss {unseen}_accuracy clients consistency"
    return [*names.split(), "download_bytes", "upload_bytes", "seconds"]
