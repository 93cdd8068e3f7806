"""YAML without its traps: a key given twice and a number that is not finite are refused, 1e-3 is a number."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import yaml

from flatfed.errors import ConfigError

_Base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):
    """The safe loader, with the two differences that this module is for."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping of ``node``; keys that it inherits through ``<<`` may be given again, own ones not."""
        seen: dict[str, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise ConfigError(f"line {line}: a key must be a plain text, not a list or a mapping")
            if key.value in seen and not getattr(node, "inherits", False):
                raise ConfigError(f"line {line}: key {key.value!r} is given twice, first in line {seen[key.value]}")
            seen[key.value] = line
        # Resolving `<<` puts the inherited keys into the node, where they may meet the own ones on a second visit.
        node.inherits = True
        return super().construct_mapping(node, deep)


# YAML 1.1 wants a point and a sign in 1.0e+3; everyone writes 1e-3, and would get a string.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def read(path: Path, name: str) -> Any:
    """Return the content of the YAML file ``path``, called ``name`` in messages.

    :raises ConfigError: it cannot be read, is not YAML, gives a key twice, or holds a number that is not finite.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: not UTF-8: byte {error.start} is {error.object[error.start]:#04x}") from None
    try:
        value = yaml.load(text, _Loader)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{name}: not YAML: {' '.join(str(error).split())}") from None
    refuse_non_finite(value, name)
    return value


def refuse_non_finite(value: Any, name: str, key: str = "") -> None:
    """Refuse infinities and NaN anywhere in ``value``; JSON has none, and no setting means anything with one."""
    if isinstance(value, dict):
        for name_of, part in value.items():
            refuse_non_finite(part, name, f"{key}.{name_of}" if key else str(name_of))
    elif isinstance(value, list):
        for place, part in enumerate(value):
            refuse_non_finite(part, name, f"{key}[{place}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{name}: {key}: {value} is not allowed; a finite number is wanted")
