"""``flatfed fetch``.

Writes images.npy (N, C, H, W; uint8), labels.npy and dataset.json with their digest. Sources: sklearn (embedded
digits), torchvision (downloads), npz (MedMNIST's layout) and imagefolder. Example of --spec:

  {"name": "digits", "classes": 10, "shape": [1, 8, 8], "source": {"source": "sklearn", "test": 500}}

example:
  flatfed fetch --out resources/digits --spec dataset.json
"""

from __future__ import annotations

import argparse

from flatfed.commands import arguments
from flatfed.commands.arguments import required

ARGUMENTS = [
    required("--spec", arguments.json_or_file, "dataset specification: JSON or a JSON file"),
    arguments.OUT_FOLDER,
]


def run(options: argparse.Namespace) -> None:
    """Write the dataset."""
    from flatfed.data import sources

    sources.fetch(options.spec, options.out)
