"""``flatfed weights``: pre-trained weights as plain tensors."""

from __future__ import annotations

import argparse

from flatfed.commands import arguments, kinds

DETAIL = "Writes a safetensors file of float32 tensors named as torchvision's. Known: vit_b32-imagenet."
EXAMPLE = "python -m flatfed weights --name vit_b32-imagenet --out resources/weights/vit_b32-imagenet.safetensors"


def add(sub: argparse.ArgumentParser) -> None:
    """Add what the sub-command takes."""
    sub.add_argument("--name", required=True, help="which weights")
    sub.add_argument("--checkpoint", type=kinds.file, metavar="FILE", help="torchvision's file (default: downloaded)")
    arguments.add_path(sub, "--out", "FILE", "file to write")


def run(options: argparse.Namespace) -> None:
    """Bring the weights that the command line names."""
    from flatfed.models import pretrained

    pretrained.make(options.name, options.out, options.checkpoint)
