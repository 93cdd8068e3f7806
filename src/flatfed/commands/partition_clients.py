"""``flatfed partition``.

Writes each client's training indices, the test indices and the class counts.
Schemes: iid, dirichlet, pathological, shards, domain, central. Example of --spec:

  {"seed": 1, "dataset": "digits", "classes": 10, "scheme": "dirichlet", "alpha": 0.6,
   "replacement": true, "clients": 30}

example:
  flatfed partition --dataset resources/digits --out clients.npz --spec partition.json
"""

from __future__ import annotations

import argparse

from flatfed.commands import arguments
from flatfed.commands.arguments import required

ARGUMENTS = [
    required("--spec", arguments.json_or_file, "partition specification: JSON or a JSON file"),
    arguments.DATASET,
    required("--out", arguments.file, "file to write", metavar="NPZ"),
]


def run(options: argparse.Namespace) -> None:
    """Write the partition."""
    from flatfed.data import partition

    partition.make(options.spec, options.dataset, options.out)
