"""YAML without its traps: what is refused here would be read as something else than is written, or not at all.

Refused are keys given twice, keys that are no text, tags, anchors that hold themselves or unfold to millions of values,
deep nesting, numbers that are not finite or beyond 2^53, and control characters. Plain words are read as in YAML 1.2:
1e-3 is a number, but yes, no, on, 010, 1:30 and 2023-01-01 are texts.
"""

from __future__ import annotations

import math
import re
import unicodedata
from pathlib import Path
from typing import Any

import yaml

from flatfed.errors import ConfigError, unknown

_Base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

#: Nesting, characters of one text, values of one file after anchors are unfolded: far above what a file of ours has.
DEEPEST, LONGEST, MOST = 32, 4000, 100_000
TOO_DEEP = f"nested deeper than {DEEPEST} levels"

#: The largest number whose neighbours are told apart wherever JSON is read.
LARGEST = 2**53

#: Unicode categories with no place in a text: control characters (line breaks among them), invisible ones, surrogates.
INVISIBLE = ("Cc", "Cf", "Cs", "Zl", "Zp")

#: Tag -> (plain words that are read as it, the characters that they begin with).
_WORDS = {
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (r"[-+]?(0|[1-9][0-9]*)", list("-+0123456789")),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|(0|[1-9][0-9]*)(?=[eE]))([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
    "merge": (r"<<", ["<"]),
}


class _Loader(_Base):
    """The safe loader, with the differences that this module is for."""

    yaml_implicit_resolvers: dict[str, list[Any]] = {}  # noqa: RUF012, PyYAML's own name; its resolvers are YAML 1.1's

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping of ``node``; keys that it inherits through ``<<`` may be given again, own ones not."""
        seen: dict[str, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise ConfigError(f"line {line}: a key must be a plain text, not a list or a mapping")
            if key.tag not in ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"):
                raise ConfigError(f"line {line}: key {key.value!r} is not a text; write it in quotes")
            if key.value in seen and not getattr(node, "inherits", False):
                raise ConfigError(f"line {line}: key {key.value!r} is given twice, first in line {seen[key.value]}")
            seen[key.value] = line
        # Resolving `<<` puts the inherited keys into the node, where they may meet the own ones on a second visit.
        node.inherits = True
        return super().construct_mapping(node, deep)


for _tag, (_words, _first) in _WORDS.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_words})\Z"), _first)


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
    try:
        _check_size(text)
        value = yaml.load(text, _Loader)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None
    except yaml.YAMLError as error:
        if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
            place = f"{name}: line {error.problem_mark.line + 1}"
            if isinstance(error, yaml.composer.ComposerError) and "single document" in str(error):
                raise ConfigError(f"{place}: another document begins; a file holds one, without `---`") from None
            if "nesting depth" in str(error):  # the scanner reads ahead of the events that _check_size counts
                raise ConfigError(f"{place}: {TOO_DEEP}") from None
        raise ConfigError(f"{name}: not YAML: {' '.join(str(error).split())}") from None
    check(value, name)
    return value


def as_in_a_file(value: Any) -> Any:
    """Return ``value`` with the words in it read as plain ones of a file: Snakemake leaves --config's as text."""
    if isinstance(value, dict):
        return {key: as_in_a_file(part) for key, part in value.items()}
    if isinstance(value, list):
        return [as_in_a_file(part) for part in value]
    return _plain(value) if isinstance(value, str) else value


def _plain(text: str) -> Any:
    """Return the number or truth value that a plain word means; any other text as it is."""
    for tag, function in (("bool", lambda word: word.lower() == "true"), ("int", int), ("float", _float)):
        if len(text) <= LONGEST and re.fullmatch(_WORDS[tag][0], text):
            return function(text)
    return text


def _float(word: str) -> float:
    return float(word.lower().replace(".inf", "inf").replace(".nan", "nan"))


def _check_size(text: str) -> None:
    """Refuse what would exhaust the loader's memory or stack, by the parser's events, which keep no tree.

    :raises ConfigError: nesting too deep, an anchor that holds itself, too much behind the anchors, or a tag.
    """
    sizes: dict[str, int | None] = {}  # anchor -> values behind it, None while it is open
    opened: list[list[Any]] = []  # [anchor, values so far] of every list and mapping around
    total = 0
    for event in yaml.parse(text, _Base):
        line = event.start_mark.line + 1
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, size = opened.pop()
            sizes[anchor] = size
        elif isinstance(event, yaml.NodeEvent):
            size, anchor = 1, event.anchor
            if isinstance(event, yaml.AliasEvent):
                if anchor not in sizes:
                    raise ConfigError(unknown("anchor", anchor, filter(None, sizes), f"line {line}"))
                if sizes[anchor] is None:
                    raise ConfigError(f"line {line}: anchor {anchor!r} is used inside itself")
                size = sizes[anchor]
            elif event.tag is not None:
                raise ConfigError(f"line {line}: tag {event.tag!r} is not allowed; plain values are wanted")
            elif isinstance(event, yaml.ScalarEvent):
                sizes[anchor] = 1
                if len(event.value) > LONGEST:
                    short = f"{event.value[:20]}..."
                    raise ConfigError(f"line {line}: {short!r} has {len(event.value)} characters; at most {LONGEST}")
            else:
                sizes[anchor] = None
                opened.append([anchor, 1])
                if len(opened) > DEEPEST:
                    raise ConfigError(f"line {line}: {TOO_DEEP}")
            total += size
            for around in opened:
                around[1] += size
            if total > MOST:
                raise ConfigError(f"line {line}: more than {MOST} values, anchors unfolded")


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
