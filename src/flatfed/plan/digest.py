"""Digests of specifications, which jobs compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import BaseModel

from flatfed.files import digest_json
from flatfed.runs.run import Run


def digest(*contents: Any) -> str:
    """Return a digest of specifications, with the folder, partition and results-determining values of runs."""
    return digest_json(_plain(contents))[:16]


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):  # most values are of these types
        return value
    if isinstance(value, Run):
        return [value.path, value.partition, value.deciding_digest]
    if isinstance(value, BaseModel):
        return _plain(dict(value))
    if is_dataclass(value):
        return {part.name: _plain(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value]
