"""YAML without its traps: what is refused here would be read as something else than is written, or not at all.

Refused are keys given twice, keys that are no text, tags, anchors that hold themselves or unfold to millions of values,
deep nesting, numbers that are not finite or beyond 2^53, and control characters. Plain words are read as in YAML 1.2:
1e-3 is a number, but yes, no, on, 010, 1:30 and 2023-01-01 are texts.
"""

from __future__ import annotations

import itertools
import math
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from flatfed.errors import ConfigError, unknown

#: Nesting, characters of one text and of a file, values of one file after anchors are unfolded: far above ours.
DEEPEST, LONGEST, LARGEST_FILE, MOST = 32, 4000, 1_000_000, 100_000
TOO_DEEP = f"nested deeper than {DEEPEST} levels"

#: The largest number whose neighbours are told apart wherever JSON is read.
LARGEST = 2**53

#: Unicode categories with no place in a text: control characters (line breaks among them), invisible ones, surrogates.
INVISIBLE = ("Cc", "Cf", "Cs", "Zl", "Zp")

#: What plain words mean: a pattern -> the function from a word of it to its value.
WORDS = {
    r"true|True|TRUE|false|False|FALSE": lambda word: word.lower() == "true",
    r"[-+]?(0|[1-9][0-9]*)": int,
    r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|(0|[1-9][0-9]*)(?=[eE]))([eE][-+]?[0-9]+)?": float,
    r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)": lambda word: float(word.replace(".", "")),
}
BEGINNINGS = tuple("+-.0123456789tTfF")
NULL = ("", "~", "null", "Null", "NULL")

#: Tags of plain words, and of all else that has none in the file: no texts, which a file could hold.
PLAIN, UNTAGGED = object(), object()


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """PyYAML's loader, which reads no more than nodes: their values are taken here."""

    def resolve(self, kind: type[yaml.Node], value: str | None, implicit: Any) -> object:
        """Return the tag of a node that the file gives none."""
        return PLAIN if kind is yaml.ScalarNode and implicit[0] else UNTAGGED


def read(path: Path, name: str) -> Any:
    """Return the content of the YAML file ``path``, called ``name`` in messages.

    :raises ConfigError: it cannot be read, is not YAML, or holds what this module refuses.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: not UTF-8: byte {error.start} is {error.object[error.start]:#04x}") from None
    if len(text) > LARGEST_FILE:
        raise ConfigError(f"{name}: has {len(text)} characters; at most {LARGEST_FILE}")
    try:
        node = yaml.compose(text, _Loader)
        value = None if node is None else _value(node, (), itertools.count(1))
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{name}: {_problem(error, text)}") from None
    check(value, name)
    return value


def _problem(error: Exception, text: str) -> str:
    """Return what PyYAML refuses of a ``text``, with the line where that helps."""
    words, mark = " ".join(str(error).split()), getattr(error, "problem_mark", None)
    line = f"line {mark.line + 1}" if mark else ""
    if "single document" in words:
        return f"{line}: another document begins; a file holds one, without `---`"
    if "nesting depth" in words:
        return f"{line}: {TOO_DEEP}"
    if "undefined alias" in words:
        alias = re.match(r"\*([^\s,\]}]*)", text.splitlines()[mark.line][mark.column :])
        return unknown("anchor", alias and alias[1], re.findall(r"&([\w-]+)", text), line)
    return f"not YAML: {words}"


def _value(node: yaml.Node, around: tuple[yaml.Node, ...], count: Iterator[int]) -> Any:
    """Return the value of a ``node`` inside of those ``around`` it; ``count`` counts the values of a file."""
    line = f"line {node.start_mark.line + 1}"
    if next(count) > MOST:
        raise ConfigError(f"{line}: more than {MOST} values, anchors unfolded")
    if node.tag not in (PLAIN, UNTAGGED):
        raise ConfigError(f"{line}: tag {node.tag!r} is not allowed; plain values are wanted")
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node, line)
    if node in around:
        raise ConfigError(f"{line}: an anchor is used inside itself")
    if len(around) == DEEPEST:
        raise ConfigError(f"{line}: {TOO_DEEP}")
    if isinstance(node, yaml.SequenceNode):
        return [_value(part, (*around, node), count) for part in node.value]
    own, inherited, lines = {}, {}, {}
    for key, part in node.value:
        line = f"line {key.start_mark.line + 1}"
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError(f"{line}: a key must be a plain text, not a list or a mapping")
        name, value = (_value(each, (*around, node), count) for each in (key, part))
        if not isinstance(name, str):
            raise ConfigError(f"{line}: key {key.value!r} is not a text; write it in quotes")
        if name in lines:
            raise ConfigError(f"{line}: key {name!r} is given twice, first in {lines[name]}")
        lines[name] = line
        if name != "<<" or key.tag is not PLAIN:
            own[name] = value
            continue
        for base in value if isinstance(value, list) else [value]:
            if not isinstance(base, dict):
                raise ConfigError(f"{line}: `<<` takes a mapping or a list of mappings, not {str(base)[:40]!r}")
            inherited = {**base, **inherited}
    return {**inherited, **own}


def _scalar(node: yaml.ScalarNode, line: str) -> Any:
    """Return the value of a word or text, which stands in this ``line``."""
    if len(node.value) > LONGEST:
        raise ConfigError(f"{line}: '{node.value[:20]}...' has {len(node.value)} characters; at most {LONGEST}")
    if node.tag is UNTAGGED or node.style:  # quoted, or a block
        return node.value
    return None if node.value in NULL else _plain(node.value)


def as_in_a_file(value: Any) -> Any:
    """Return ``value`` with the words in it read as plain ones of a file: Snakemake leaves --config's as text."""
    if isinstance(value, dict):
        return {key: as_in_a_file(part) for key, part in value.items()}
    if isinstance(value, list):
        return [as_in_a_file(part) for part in value]
    return _plain(value) if isinstance(value, str) else value


def _plain(text: str) -> Any:
    """Return the number or truth value that a plain word means; any other text as it is."""
    meanings = (function for pattern, function in WORDS.items() if re.fullmatch(pattern, text))
    return next(meanings, str)(text) if len(text) <= LONGEST and text.startswith(BEGINNINGS) else text


def check(value: Any, name: str, key: str = "") -> None:
    """Refuse values that no setting can have (see the module), anywhere in ``value``.

    Messages begin with ``name`` and the key.

    :raises ConfigError: the first such value.
    """
    at = f"{name}: {key}" if key else name
    if isinstance(value, dict):
        for name_of, part in value.items():
            if not isinstance(name_of, str):
                raise ConfigError(f"{at}: key {name_of!r} is not a text; write it in quotes")
            _check_text(name_of, f"{at}: key")
            check(part, name, f"{key}.{name_of}" if key else name_of)
    elif isinstance(value, list):
        for place, part in enumerate(value):
            check(part, name, f"{key}[{place}]")
    elif isinstance(value, str):
        _check_text(value, at)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{at}: {value} is not allowed; a finite number is wanted")
    elif isinstance(value, int | float) and abs(value) > LARGEST:
        raise ConfigError(f"{at}: {str(value)[:40]} is not allowed; a number of at most {LARGEST:g} is wanted")
    elif value is not None and not isinstance(value, int | float):
        raise ConfigError(f"{at}: {value!r} is a {type(value).__name__}; write it in quotes where a text is meant")


def _check_text(text: str, at: str) -> None:
    if text.isascii() and text.isprintable():
        return
    for character in text:
        if unicodedata.category(character) in INVISIBLE:
            hint = "; write >- before a text of several lines" if character == "\n" else ""
            raise ConfigError(f"{at}: {text[:80]!r} holds the control character {character!r}{hint}")
