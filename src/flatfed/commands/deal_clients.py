"""``flatfed partition``: a data set dealt to clients."""

from __future__ import annotations

import argparse

from flatfed.commands import arguments

DEAL = (
    '{"seed": 1, "dataset": "digits", "classes": 10, "scheme": "dirichlet", "alpha": 0.6,'
    ' "replacement": true, "clients": 30}'
)

DETAIL = """\
Writes each client's training indices, the test indices and the class counts.
Schemes: iid, dirichlet, pathological, shards, domain, central."""
EXAMPLE = f"python -m flatfed partition --dataset resources/digits --out clients.npz --spec '{DEAL}'"


def add(sub: argparse.ArgumentParser) -> None:
    """Add what the sub-command takes."""
    arguments.add_spec(sub, "--spec", "how to deal")
    arguments.add_path(sub, "--dataset", "DIR", "folder that `fetch` made")
    arguments.add_path(sub, "--out", "NPZ", "file to write")


def run(options: argparse.Namespace) -> None:
    """Deal as the command line asks."""
    from flatfed.data import partition

    partition.make(options.spec, options.dataset, options.out)
