"""Estimates of a Hessian that are finished while others are not, so that a call that was stopped goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from flatfed.files import unfinished, write_whole

Kind = TypeVar("Kind")


class Stages:
    """A hidden file beside ``out`` for every finished estimate (:func:`flatfed.files.unfinished`)."""

    def __init__(self, out: Path, identity: dict[str, Any], device: torch.device):
        self.stem, self.device = unfinished(out, identity), str(device)

    def get(self, name: str, kind: type[Kind], make: Callable[[], Kind]) -> Kind:
        """Return the estimate ``name``: that of an earlier call, tensors on the device, or what ``make`` returns.

        ``kind`` is its dataclass. Tensors, which would take too much as JSON, are kept as safetensors, the other fields
        as JSON beside them.
        """
        path = self.stem.with_name(f"{self.stem.name}.{name}.stage")
        try:
            with safe_open(path, "pt", device=self.device) as file:
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - it is no mapping
                return kind(**tensors, **json.loads(file.metadata()["plain"]))
        except (OSError, SafetensorError, KeyError, ValueError, TypeError):
            pass
        value = make()
        tensors = {key: each.cpu().contiguous() for key, each in vars(value).items() if isinstance(each, Tensor)}
        plain = {key: each for key, each in vars(value).items() if key not in tensors}
        with write_whole(path) as file:
            file.write(save(tensors, {"plain": json.dumps(plain)}))
        return value

    def discard(self) -> None:
        """Remove the files: all is written."""
        for path in self.stem.parent.glob(f"{self.stem.name}.*.stage"):
            path.unlink(missing_ok=True)
