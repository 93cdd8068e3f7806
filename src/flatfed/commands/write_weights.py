"""``flatfed weights``.

Writes torchvision's weights as float32 tensors in a safetensors file. Available: vit_b32-imagenet.

example:
  python -m flatfed weights --name vit_b32-imagenet --out resources/weights/vit_b32-imagenet.safetensors
"""

from __future__ import annotations

import argparse

from flatfed.commands import arguments
from flatfed.commands.arguments import argument

ARGUMENTS = [
    argument("--name", str, "name of the weights", required=True),
    argument("--checkpoint", arguments.file, "torchvision's file (default: downloaded)"),
    arguments.OUT,
]


def run(options: argparse.Namespace) -> None:
    """Write the weights."""
    from flatfed.models import pretrained

    pretrained.make(options.name, options.out, options.checkpoint)
