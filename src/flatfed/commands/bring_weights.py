"""``flatfed weights``: pre-trained weights as plain tensors.

Writes a safetensors file of float32 tensors named as torchvision's. Known: vit_b32-imagenet.

example:
  python -m flatfed weights --name vit_b32-imagenet --out resources/weights/vit_b32-imagenet.safetensors
"""

from __future__ import annotations

import argparse

from flatfed.commands import arguments, kinds
from flatfed.commands.arguments import argument

ARGUMENTS = [
    argument("--name", str, "which weights", required=True),
    argument("--checkpoint", kinds.file, "torchvision's file (default: downloaded)"),
    arguments.OUT,
]


def run(options: argparse.Namespace) -> None:
    """Bring the weights that the command line names."""
    from flatfed.models import pretrained

    pretrained.make(options.name, options.out, options.checkpoint)
