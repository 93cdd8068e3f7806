"""Pretrained weights: ``resources/weights/<name>.safetensors`` with torchvision's tensor names."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flatfed.errors import ConfigError, DataError, unknown
from flatfed.files import digest_file, download_folder, write_whole

if TYPE_CHECKING:
    from torch import Tensor, nn

#: Increase it when the written tensors change.
VERSION = 1


@dataclass(frozen=True)
class Published:
    """Weights of ``model``, downloaded by torchvision's enumeration member ``weights``."""

    model: str
    weights: str
    shape: tuple[int, int, int]
    classes: int
    options: dict[str, Any] = field(default_factory=dict)


PUBLISHED = {"vit_b32-imagenet": Published("vit_b32", "ViT_B_32_Weights.IMAGENET1K_V1", (3, 224, 224), 1000)}


def find(name: str, where: str) -> Published:
    """Return the weights ``name``; ConfigError naming ``where`` if they do not exist."""
    if name not in PUBLISHED:
        raise ConfigError(unknown("weights", name, PUBLISHED, where))
    return PUBLISHED[name]


def check(name: str, model: str, where: str) -> str:
    """Return ``name`` if it is weights of ``model``; ConfigError naming ``where`` otherwise."""
    published = find(name, where)
    if published.model != model:
        raise ConfigError(f"{where}: {name!r} are weights of model {published.model!r}, not of {model!r}")
    return name


def make(name: str, out: str | os.PathLike[str], checkpoint: str | os.PathLike[str] | None = None) -> None:
    """Write the weights ``name`` to the safetensors file ``out``, float32, atomically.

    Source: torchvision's download, or ``checkpoint``, a file of torch.save from which only tensors are read.

    :raises DataError: the weights are unavailable, or a tensor is missing, unexpected or of another shape.
    """
    import torch
    from safetensors.torch import save

    from flatfed import models

    published = find(name, "weights")
    if checkpoint is None:
        tensors, where = _download(name, out), f"weights {name!r}: {published.weights}"
    else:
        where = f"weights {name!r}: {checkpoint}"
        try:
            tensors = torch.load(checkpoint, map_location="cpu", weights_only=True)
        except Exception as error:  # the kind depends on the damage
            problem = next(iter(str(error).splitlines()), type(error).__name__)
            raise DataError(f"{where} cannot be read as a checkpoint ({problem})") from error
    if not isinstance(tensors, dict):
        raise DataError(f"{where}: holds {type(tensors).__name__}, expected a mapping from names to tensors")
    # torchvision's old checkpoints have other names for mlp.0 and mlp.3.
    tensors = {
        key.replace(".mlp.linear_1.", ".mlp.0.").replace(".mlp.linear_2.", ".mlp.3."): value
        for key, value in tensors.items()
    }
    with torch.device("meta"):
        model = models.build(published.model, published.shape, published.classes, published.options)
    _fill(model, tensors, where, assign=True)
    with write_whole(out) as file:
        file.write(save({key: tensors[key].detach().float().contiguous() for key, _ in model.named_parameters()}))


def _download(name: str, out: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Return torchvision's state dict of ``name``; DataError with the remedy if the download fails."""
    from torchvision.models import get_weight

    weights = get_weight(PUBLISHED[name].weights)
    try:
        # torch does not check the hashes of files in its cache
        with download_folder() as folder:
            return weights.get_state_dict(model_dir=folder, progress=False, check_hash=True, weights_only=True)
    except Exception as error:  # of the network, the hash or the archive
        remedy = f"get this file elsewhere and run: flatfed weights --name {name} --checkpoint FILE --out {out}"
        raise DataError(f"weights {name!r}: could not download {weights.url} ({error}); {remedy}") from error


def digest(file: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of ``file``; DataError if it is unreadable."""
    try:
        return digest_file(file)
    except OSError as error:
        raise DataError(f"{file}: cannot be read as weights ({error})") from error


def load(module: nn.Module, row: Tensor, file: str | os.PathLike[str]) -> Tensor:
    """Return the row (parameters,) of ``module`` with the tensors of the safetensors ``file``.

    For another number of classes, the last layer (``module.head``) keeps its values of ``row``.

    :raises DataError: the file is unreadable, or a tensor is missing, unexpected or of another shape.
    """
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors = load_file(file)
    except (OSError, SafetensorError) as error:
        raise DataError(f"{file}: cannot be read as weights ({error}); delete it to fetch it again") from error
    parts = row.split([parameter.numel() for parameter in module.parameters()])
    named = zip(module.named_parameters(), parts, strict=True)
    drawn = {name: part.view_as(parameter) for (name, parameter), part in named}
    head = [name for name in drawn if name.rpartition(".")[0] == getattr(module, "head", None)]
    if any(name in tensors and tensors[name].shape != drawn[name].shape for name in head):
        tensors |= {name: drawn[name] for name in head}
    _fill(module, tensors, str(file))
    return torch.cat([tensors[name].reshape(-1).to(row) for name in drawn])


def _fill(module: nn.Module, tensors: dict[str, Tensor], where: str, assign: bool = False) -> None:
    """Load ``tensors`` into ``module``; ``assign`` replaces its parameters, which may be meta tensors."""
    try:
        module.load_state_dict(tensors, assign=assign)
    except RuntimeError as error:
        raise DataError(f"{where}: {' '.join(str(error).split())}") from None
