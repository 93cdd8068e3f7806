"""Weights that were trained elsewhere: ``resources/weights/<name>.safetensors``, tensors by torchvision's names.

torch is imported only where it is needed. For another number of classes the last layer stays as it was drawn
(:func:`flatfed.models.initial_weights`), keyed by the run's seed.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flatfed.errors import ConfigError, DataError, unknown
from flatfed.files import digest_file, write_whole

if TYPE_CHECKING:
    from torch import Tensor, nn

#: Increased when the tensors that it writes change.
VERSION = 1


@dataclass(frozen=True)
class Published:
    """``weights``: the member of torchvision's enumeration that downloads them; the others: the model they are of."""

    model: str
    weights: str
    shape: tuple[int, int, int]
    classes: int
    options: dict[str, Any] = field(default_factory=dict)


PUBLISHED = {"vit_b32-imagenet": Published("vit_b32", "ViT_B_32_Weights.IMAGENET1K_V1", (3, 224, 224), 1000)}


def find(name: str, where: str) -> Published:
    """Return the weights called ``name``; ConfigError naming ``where`` if there are none."""
    if name not in PUBLISHED:
        raise ConfigError(unknown("weights", name, PUBLISHED, where))
    return PUBLISHED[name]


def check(name: str, model: str, where: str) -> str:
    """Return ``name`` if weights of that name exist for ``model``; ConfigError naming ``where`` otherwise."""
    published = find(name, where)
    if published.model != model:
        raise ConfigError(f"{where}: {name!r} are weights of model {published.model!r}, not of {model!r}")
    return name


def make(name: str, out: str | os.PathLike[str], checkpoint: str | os.PathLike[str] | None = None) -> None:
    """Write the weights ``name`` to the safetensors file ``out``, whole.

    They are torchvision's, downloaded and checked by hash, or those of the file ``checkpoint`` that torch.save wrote
    (only tensors are read from it). Raises DataError where they cannot be had or are not the model's.
    """
    import torch

    from flatfed import models

    published = find(name, "weights")
    if checkpoint is None:
        found, source = _download(name, out), published.weights
    else:
        source = str(checkpoint)
        try:
            found = torch.load(checkpoint, map_location="cpu", weights_only=True)
        except Exception as error:  # torch raises what the archive's damage happens to hit
            first = next(iter(str(error).splitlines()), type(error).__name__)
            raise DataError(f"weights {name!r}: {checkpoint} cannot be read as a checkpoint ({first})") from error
    with torch.device("meta"):
        model = models.build(published.model, published.shape, published.classes, published.options)
    convert(found, model, out, f"weights {name!r}: {source}")


def _download(name: str, out: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Return torchvision's state dict of ``name``; a DataError says what to do without a network.

    torch's cache is not used: torch checks the hash of a file that it downloads, but not of one in its cache.
    """
    from torchvision.models import get_weight

    weights = get_weight(PUBLISHED[name].weights)
    try:
        with tempfile.TemporaryDirectory(prefix="flatfed-") as folder:
            return weights.get_state_dict(model_dir=folder, progress=False, check_hash=True, weights_only=True)
    except Exception as error:  # of the network, of the hash, or whatever torch's reader hits in a damaged archive
        remedy = f"get this file elsewhere and run: flatfed weights --name {name} --checkpoint FILE --out {out}"
        raise DataError(f"weights {name!r}: could not download {weights.url} ({error}); {remedy}") from error


def convert(found: Any, model: nn.Module, out: str | os.PathLike[str], where: str) -> None:
    """Write the tensors ``found`` of ``model`` (by torchvision's names, today's or older) to ``out``, in float32.

    Raises DataError naming ``where`` and a tensor that is missing, too many or of another shape.
    """
    from safetensors.torch import save

    if not isinstance(found, dict):
        raise DataError(f"{where}: holds {type(found).__name__}, expected a mapping from names to tensors")
    # Old checkpoints of torchvision's say mlp.linear_1 and mlp.linear_2 for what is mlp.0 and mlp.3 today.
    renamed = {
        name.replace(".mlp.linear_1.", ".mlp.0.").replace(".mlp.linear_2.", ".mlp.3."): value
        for name, value in found.items()
    }
    _fill(model, renamed, where, assign=True)
    with write_whole(out) as file:
        file.write(save({name: renamed[name].detach().float().contiguous() for name, _ in model.named_parameters()}))


def digest(file: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file of weights; DataError where it cannot be read."""
    try:
        return digest_file(file)
    except OSError as error:
        raise DataError(f"{file}: cannot be read as weights ({error})") from error


def load(module: nn.Module, row: Tensor, file: str | os.PathLike[str]) -> Tensor:
    """Return the initial ``row`` (parameters,) of ``module`` with the tensors of the safetensors ``file`` in it.

    A last layer (``module.head`` names it) of another number of classes keeps what ``row`` has. Raises DataError
    naming a tensor that is missing, too many or of another shape, and for a file that cannot be read.
    """
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        found = load_file(file)
    except (OSError, SafetensorError) as error:
        raise DataError(f"{file}: cannot be read as weights ({error}); delete it to make it again") from error
    parts = row.split([parameter.numel() for parameter in module.parameters()])
    named = zip(module.named_parameters(), parts, strict=True)
    drawn = {name: part.view_as(parameter) for (name, parameter), part in named}
    head = [name for name in drawn if name.rpartition(".")[0] == getattr(module, "head", None)]
    if any(name in found and found[name].shape != drawn[name].shape for name in head):
        found |= {name: drawn[name] for name in head}
    _fill(module, found, str(file))
    return torch.cat([found[name].reshape(-1).to(row) for name in drawn])


def _fill(module: nn.Module, found: dict[str, Tensor], where: str, assign: bool = False) -> None:
    """Put the tensors ``found`` into ``module``; DataError names what is missing, too many or of another shape.

    ``assign``: in the place of the parameters, which have no content.
    """
    try:
        module.load_state_dict(found, assign=assign)
    except RuntimeError as error:
        raise DataError(f"{where}: {' '.join(str(error).split())}") from None
