"""Readers of command-line values, with messages for wrong values."""

from __future__ import annotations

import argparse
import functools
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def _number(kind: type, low: float, high: float, words: str) -> Callable[[str], Any]:
    """Return the reader of a number of a ``kind`` from ``low`` to ``high``."""

    def read(text: str) -> Any:
        try:
            number = kind(text)
        except ValueError:
            number = math.nan
        if not low <= number <= high:
            span = f"from {low} to {high}" if high < math.inf else f"above {low - 1}"
            raise argparse.ArgumentTypeError(f"{text!r}: expected {words} {span}")
        return number

    return read


count = _number(int, 1, math.inf, "a whole number")
several = _number(int, 2, math.inf, "a whole number")
seed = _number(int, 0, (1 << 32) - 1, "a whole number")
share = _number(float, 0, 1, "a number")


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
