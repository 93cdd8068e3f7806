"""``flatfed fetch``: a data set as arrays.

Writes images.npy (N, C, H, W; uint8), labels.npy and dataset.json, which holds their digest. Sources:
sklearn (the embedded digits), torchvision (downloads and checks the sum), npz (MedMNIST's layout)
and imagefolder. An example of --spec:

  {"name": "digits", "classes": 10, "shape": [1, 8, 8], "source": {"source": "sklearn", "test": 500}}

example:
  python -m flatfed fetch --out resources/digits --spec dataset.json
"""

from __future__ import annotations

import argparse

from flatfed.commands import arguments, kinds
from flatfed.commands.arguments import required

ARGUMENTS = [required("--spec", kinds.json_or_file, "what to bring: JSON, or a file of it"), arguments.OUT_FOLDER]


def run(options: argparse.Namespace) -> None:
    """Bring the data set that the command line asks for."""
    from flatfed.data import sources

    sources.fetch(options.spec, options.out)
