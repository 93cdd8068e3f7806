"""Finished estimates of an unfinished Hessian."""

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
    """A hidden file next to ``out`` for every finished estimate (:func:`flatfed.files.unfinished`)."""

    def __init__(self, out: Path, identity: dict[str, Any], device: torch.device):
        self.stem, self.device = unfinished(out, identity), str(device)

    def get(self, name: str, kind: type[Kind], make: Callable[[], Kind]) -> Kind:
        """Return the estimate ``name``, a dataclass ``kind``, of an earlier call or of ``make``.

        Its file is safetensors, with the other fields as JSON in the metadata.
        """
        path = self.stem.with_name(f"{self.stem.name}.{name}.stage")
        try:
            with safe_open(path, "pt", device=self.device) as file:
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - it is no mapping
                return kind(**tensors, **json.loads(file.metadata()["plain"]))
        except (OSError, SafetensorError, KeyError, ValueError, TypeError):
            pass
        value = make()
        tensors = {key: field.cpu().contiguous() for key, field in vars(value).items() if isinstance(field, Tensor)}
        plain = {key: field for key, field in vars(value).items() if key not in tensors}
        with write_whole(path) as file:
            file.write(save(tensors, {"plain": json.dumps(plain)}))
        return value

    def discard(self) -> None:
        for path in self.stem.parent.glob(f"{self.stem.name}.*.stage"):
            path.unlink(missing_ok=True)
