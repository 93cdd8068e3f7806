"""Estimates of a Hessian that are finished while others are not, so that a call that was stopped goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from flatfed.analysis.hessian.eigen import TENSORS, Eigen
from flatfed.analysis.hessian.estimates import Mean
from flatfed.files import unfinished, write_whole


class Stages:
    """A hidden file beside ``out`` for every finished estimate (:func:`flatfed.files.unfinished`)."""

    def __init__(self, out: str | os.PathLike[str], identity: dict[str, Any]):
        self.stem = unfinished(out, identity)

    def get(self, name: str, make: Callable[[], Any]) -> Any:
        """Return the estimate ``name``: that of an earlier call, or what ``make`` returns, which is kept."""
        path = self._path(name)
        try:
            with safe_open(path, "pt") as file:
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - it is no mapping
                return _unpacked(json.loads(file.metadata()["value"]), tensors)
        except (OSError, SafetensorError, KeyError, ValueError, TypeError):
            pass
        value = make()
        plain, tensors = _packed(value)
        with write_whole(path) as file:
            file.write(save(tensors, {"value": json.dumps(plain)}))
        return value

    def discard(self) -> None:
        """Remove the files: all is written."""
        for path in self.stem.parent.glob(f"{self.stem.name}.*.stage"):
            path.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self.stem.with_name(f"{self.stem.name}.{name}.stage")


def _packed(value: Any) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Return ``value`` as JSON with its kind, and the tensors of eigenvectors, which JSON would take too much for."""
    if isinstance(value, Eigen):
        tensors = {name: getattr(value, name).cpu().contiguous() for name in TENSORS}
        return {"kind": "eigen", "value": value.converged}, tensors
    if isinstance(value, Mean):
        return {"kind": "mean", "value": asdict(value)}, {}
    return {"kind": "plain", "value": value}, {}


def _unpacked(content: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Any:
    """Return what :func:`_packed` was given, tensors on the CPU."""
    if content["kind"] == "eigen":
        return Eigen(**tensors, converged=content["value"])
    if content["kind"] == "mean":
        return Mean(**content["value"] | {"parts": tuple(content["value"]["parts"])})
    return content["value"]
