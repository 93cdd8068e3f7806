"""A strict YAML reader: it refuses duplicate keys, control characters and content that is nested too deep.

Plain words follow YAML 1.2: 1e-3 is a number; yes, no, on, 010, 1:30 and 2023-01-01 are texts.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import yaml

from flatfed.config import parsed_files
from flatfed.errors import ConfigError

#: Limits: nesting, and values of a file with expanded anchors.
DEEPEST, MOST = 32, 100_000

#: Unicode categories of control and invisible characters.
INVISIBLE = ("Cc", "Cf", "Cs", "Zl", "Zp")

#: Type of a plain word -> its pattern and possible first characters; integers are within the range of floats.
TAG, DIGITS = "tag:yaml.org,2002:", "0123456789"
FLOAT = r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|(0|[1-9][0-9]*)(?=[eE]))([eE][-+]?[0-9]+)?"
WORDS = {
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": (r"[-+]?(0|[1-9][0-9]{0,299})", f"-+{DIGITS}"),
    "float": (rf"{FLOAT}|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", f"-+.{DIGITS}"),
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "merge": (r"<<", "<"),
}


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Refuse duplicate keys and keys that are not text; then merge the mappings of ``<<``."""
        lines: dict[str, str] = {}
        for key, _ in [] if hasattr(node, "flat") else node.value:
            line = f"line {key.start_mark.line + 1}"
            if key.tag not in (f"{TAG}str", f"{TAG}merge"):
                word = repr(key.value) if isinstance(key, yaml.ScalarNode) else "that is a list or a mapping"
                raise ConfigError(f"{line}: key {word} is not a text; write it in quotes")
            if key.value in lines:
                raise ConfigError(f"{line}: key {key.value!r} is given twice, first in {lines[key.value]}")
            lines[key.value] = line
        node.flat = True
        super().flatten_mapping(node)


def _float(loader: _Loader, node: yaml.ScalarNode) -> float:
    """Refuse a number that becomes 0 or infinite: it is too small or too large for a float."""
    value, digits = loader.construct_yaml_float(node), node.value.lower().partition("e")[0]
    if (value == 0 and digits.strip("-+.0")) or (math.isinf(value) and "inf" not in node.value.lower()):
        line = f"line {node.start_mark.line + 1}: " if node.start_mark else ""
        raise ConfigError(f"{line}{node.value} would be read as {value:g}")
    return value


_Loader.add_constructor(f"{TAG}float", _float)
for kind, (pattern, beginnings) in WORDS.items():
    _Loader.add_implicit_resolver(f"{TAG}{kind}", re.compile(rf"(?:{pattern})\Z"), beginnings)


def read(path: Path, name: str) -> Any:
    """Return the content of the YAML file ``path``, called ``name`` in messages; ConfigError if it is refused."""
    return parsed_files.content(path, lambda path: _parsed(path, name))


def _parsed(path: Path, name: str) -> Any:
    try:
        value = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: not UTF-8: byte {error.start} is {error.object[error.start]:#04x}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{name}: not YAML: {' '.join(str(error).split())[:400]}") from None
    _check(value, name)
    return value


def as_in_a_file(value: Any) -> Any:
    """Return ``value`` with its texts parsed as plain words: Snakemake passes --config values as texts."""
    if isinstance(value, dict):
        return {key: as_in_a_file(part) for key, part in value.items()}
    if isinstance(value, list):
        return [as_in_a_file(part) for part in value]
    if not isinstance(value, str):
        return value
    loader = _Loader("")
    tag = loader.resolve(yaml.ScalarNode, value, (True, False))
    number = tag in (f"{TAG}bool", f"{TAG}int", f"{TAG}float")
    return loader.construct_object(yaml.ScalarNode(tag, value)) if number else value


def _check(value: Any, name: str) -> None:
    """Raise ConfigError, with ``name`` and key, for the first refused part of ``value``."""
    for count, (key, depth, part) in enumerate(_parts(value), 1):
        at = f"{name}: {key}" if key else name
        if depth > DEEPEST:
            raise ConfigError(f"{at}: nested deeper than {DEEPEST} levels")
        if count > MOST:
            raise ConfigError(f"{at}: more than {MOST} values, anchors expanded")
        for character in part if isinstance(part, str) and not part.isprintable() else ():
            if unicodedata.category(character) in INVISIBLE:
                hint = "; write >- before a text of several lines" if character == "\n" else ""
                raise ConfigError(f"{at}: {part[:80]!r} contains the control character {character!r}{hint}")


def _parts(value: Any, key: str = "", depth: int = 0) -> Iterator[tuple[str, int, Any]]:
    """Yield key path, depth and value of ``value`` and of all its parts."""
    yield key, depth, value
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _parts(part, f"{key}.{name}" if key else name, depth + 1)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _parts(part, f"{key}[{index}]", depth + 1)
