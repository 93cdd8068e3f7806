"""Pretrained weights: ``resources/weights/<name>.pth``, a state dict by torch.save, as torchvision publishes them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from flatfed.errors import DataError
from flatfed.files import digest_file

if TYPE_CHECKING:
    from torch import Tensor, nn

#: Name of published weights -> their file: the first digits of its SHA-256, and its name at torchvision.
PUBLISHED = {"vit_b32-imagenet": ("d86f8d99", "vit_b_32-d86f8d99.pth (ViT_B_32_Weights.IMAGENET1K_V1)")}


def missing(name: str, file: str) -> str:
    """Return the advice for weights ``name`` without a ``file``."""
    content = f"torchvision's {PUBLISHED[name][1]}" if name in PUBLISHED else "a state dict, written by torch.save"
    return f"there is no file {file}; it should be {content}"


def digest(name: str, file: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of the ``file`` of weights ``name``.

    :raises DataError: it is missing, unreadable, or another than the published one.
    """
    if not Path(file).is_file():
        raise DataError(f"model.weights of the run is {name!r}, but {missing(name, str(file))}")
    try:
        found = digest_file(file)
    except OSError as error:
        raise DataError(f"{file}: cannot be read as weights ({error})") from error
    start, published = PUBLISHED.get(name, ("", ""))
    if not found.startswith(start):
        raise DataError(f"{file}: SHA-256 {found[:8]}... is not that of {published}; other weights need another name")
    return found


def load(module: nn.Module, row: Tensor, file: str | os.PathLike[str]) -> Tensor:
    """Return the row (parameters that train,) of ``module`` with the tensors of ``file``; ``module`` gets them, too.

    For another number of classes, the last layer (``module.head``) keeps its values of ``row``.

    :raises DataError: the file is unreadable, or a tensor is missing, unexpected or of another shape.
    """
    import torch

    try:
        tensors = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # the kind depends on the damage
        problem = next(iter(str(error).splitlines()), type(error).__name__)
        raise DataError(f"{file}: cannot be read as weights ({problem})") from error
    if not isinstance(tensors, dict):
        raise DataError(f"{file}: holds {type(tensors).__name__}, expected a mapping from names to tensors")
    # torchvision's old checkpoints have other names for mlp.0 and mlp.3.
    tensors = {
        key.replace(".mlp.linear_1.", ".mlp.0.").replace(".mlp.linear_2.", ".mlp.3."): value
        for key, value in tensors.items()
    }
    trained = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    parts = row.split([parameter.numel() for parameter in trained.values()])
    drawn = {name: part.view_as(trained[name]) for name, part in zip(trained, parts, strict=True)}
    head = [name for name in drawn if name.rpartition(".")[0] == getattr(module, "head", None)]
    if any(name in tensors and tensors[name].shape != drawn[name].shape for name in head):
        tensors |= {name: drawn[name] for name in head}
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise DataError(f"{file}: {' '.join(str(error).split())}") from None
    return torch.cat([tensors[name].reshape(-1).to(row) for name in drawn])
