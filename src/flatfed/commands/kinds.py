"""The kinds of values that arguments of the command line have, and the messages for values that are not of them."""

from __future__ import annotations

import argparse
import functools
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flatfed.errors import DataError, instead
from flatfed.files import check_place

CONFIG = "--config"


class Parser(argparse.ArgumentParser):
    """A parser that names the nearest choice for a wrong one and takes parts of a configuration as Snakemake does."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        words: list[str] = []
        for word in sys.argv[1:] if args is None else args:
            # A word after a part of the configuration that can be another part is one; names of tables cannot.
            continues = len(words) > 1 and words[-2] == CONFIG and _is_setting(word)
            words += [CONFIG, word] if continues else [word]
        return super().parse_known_args(words, namespace)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            kind = "command" if isinstance(action, argparse._SubParsersAction) else "value"
            raise argparse.ArgumentError(action, f"unknown {kind} {value!r}; {instead(value, action.choices)}")


def json_or_file(text: str) -> dict[str, Any]:
    """Read a JSON object, or the file of that name that holds one; argparse reports what is neither."""
    try:
        value = json.loads(text if text.lstrip().startswith("{") else Path(text).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"{text[:80]!r}: neither JSON nor a readable file of it: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text}: a JSON object is wanted, not {type(value).__name__}")
    return value


def _number(kind: type, low: float, high: float, what: str) -> Callable[[str], Any]:
    """Return the reader of a number of a ``kind`` from ``low`` to ``high``."""

    def read(text: str) -> Any:
        try:
            number = kind(text)
        except ValueError:
            number = math.nan
        if not low <= number <= high:
            span = f"from {low} to {high}" if high < math.inf else f"above {low - 1}"
            raise argparse.ArgumentTypeError(f"{text!r}: {what} {span} is wanted")
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
    """Read the path of a file or a folder, whether it exists or not; a file has to end in a suffix, if these are given.

    What is of the other kind is refused.
    """
    try:
        check_place(text, folder=of_folder)
    except (DataError, OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{text[:80]!r}: {str(error)[:300]}") from None
    if suffixes and Path(text).suffix not in suffixes:
        raise argparse.ArgumentTypeError(f"{text!r}: a file that ends in {' or '.join(suffixes)} is wanted")
    return Path(text)


file, folder = functools.partial(_path), functools.partial(_path, of_folder=True)


def ending(*suffixes: str) -> Callable[[str], Path]:
    """Return the reader of the path of a file that ends in one of ``suffixes``."""
    return lambda text: _path(text, *suffixes)


def setting(text: str) -> str:
    """Read a part of the configuration: KEY=VALUE, or the path of a YAML file."""
    if not _is_setting(text) and not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"{text!r} is neither KEY=VALUE nor a YAML file")
    return text


def is_value(text: str) -> bool:
    """Return whether ``text`` is KEY=VALUE."""
    key, given, _ = text.partition("=")
    return bool(given) and key.isidentifier()


def _is_setting(text: str) -> bool:
    return is_value(text) or Path(text).suffix in (".yaml", ".yml")
