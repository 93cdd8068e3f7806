"""Readers of command-line values, with messages for wrong values."""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from flatfed.config.values import LAST_SEED, Count, Natural
from flatfed.errors import DataError, suggestion
from flatfed.files import check_place

CONFIG = "--config"


class Parser(argparse.ArgumentParser):
    """A parser that suggests the nearest choice, and accepts several values after --config as Snakemake does."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        words: list[str] = []
        for word in sys.argv[1:] if args is None else args:
            continues = len(words) > 1 and words[-2] == CONFIG and _is_setting(word)
            words += [CONFIG, word] if continues else [word]
        return super().parse_known_args(words, namespace)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            kind = "command" if isinstance(action, argparse._SubParsersAction) else "value"
            raise argparse.ArgumentError(action, f"unknown {kind} {value!r}; {suggestion(value, action.choices)}")


def json_or_file(text: str) -> dict[str, Any]:
    """Read a JSON object from ``text`` or from the file of that name."""
    try:
        value = json.loads(text if text.lstrip().startswith("{") else Path(text).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"{text[:80]!r}: neither JSON nor a readable JSON file: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text}: expected a JSON object, not {type(value).__name__}")
    return value


def _of_type(kind: Any, words: str) -> Callable[[str], Any]:
    """Return the reader of a value of a type ``kind`` of pydantic."""
    adapter = TypeAdapter(kind)

    def read(text: str) -> Any:
        try:
            return adapter.validate_strings(text)
        except ValidationError:
            raise argparse.ArgumentTypeError(f"{text!r}: expected {words}") from None

    return read


count = _of_type(Count, "a whole number above 0")
several = _of_type(Annotated[Count, Field(ge=2)], "a whole number above 1")
seed = _of_type(Annotated[Natural, Field(le=LAST_SEED)], f"a whole number from 0 to {LAST_SEED}")
share = _of_type(Annotated[float, Field(ge=0, le=1)], "a number from 0 to 1")


def images(text: str) -> int | None:
    """Read a number of images, None for ``all``."""
    return None if text == "all" else count(text)


def _path(text: str, *suffixes: str, of_folder: bool = False) -> Path:
    """Read the path of a file, with one of ``suffixes`` if there are any, or of a folder. It need not exist."""
    try:
        check_place(text, folder=of_folder)
    except (DataError, OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{text[:80]!r}: {str(error)[:300]}") from None
    if suffixes and Path(text).suffix not in suffixes:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a file that ends in {' or '.join(suffixes)}")
    return Path(text)


file, folder = _path, functools.partial(_path, of_folder=True)


def ending(*suffixes: str) -> Callable[[str], Path]:
    """Return the reader of a file path with one of ``suffixes``."""
    return lambda text: _path(text, *suffixes)


def setting(text: str) -> str:
    """Read KEY=VALUE or the path of a YAML file."""
    if not _is_setting(text) and not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"{text!r} is neither KEY=VALUE nor a YAML file")
    return text


def is_value(text: str) -> bool:
    """Return whether ``text`` is KEY=VALUE."""
    key, equals, _ = text.partition("=")
    return bool(equals) and key.isidentifier()


def _is_setting(text: str) -> bool:
    return is_value(text) or Path(text).suffix in (".yaml", ".yml")
