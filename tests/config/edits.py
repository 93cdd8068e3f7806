"""Write whether each of 26,000 random edits of the files in config/ is refused, and with which message.

Each file is checked alone, without the rules between files. Compare the outputs of two versions of the code:

  PYTHONPATH=src python tests/config/edits.py OUT
"""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flatfed.commands.schema import SCHEMAS
from flatfed.config import strict_yaml
from flatfed.errors import ConfigError

CONFIG = Path(__file__).parents[2] / "config"
EDITS, SEED = 26_000, 1
#: Folder of config/ -> the name of the type of its files.
FOLDERS = {"figures": "figure", "protocols": "protocol", "tables": "table"}
VALUES = [None, True, False, -1, 0, 1, 2, 0.5, 1.0, 1e-9, 10**10, float("nan"), "", "x", "a b", [], ["x"], {}, {"x": 1}]
LETTERS = "abcdefghijklmnopqrstuvwxyz_"

#: A mapping or a list of a document, and a key or an index of it.
Place = tuple[Any, Any]


def files() -> Iterator[tuple[str, str, Any]]:
    """Yield name, type and content of each file."""
    for path in sorted(CONFIG.rglob("*.yaml")):
        name = path.relative_to(CONFIG).as_posix()
        yield name, FOLDERS.get(path.parent.name, path.stem), strict_yaml.read(path, name)


def places(content: Any, path: str = "") -> Iterator[tuple[str, Place]]:
    """Yield key path, mapping or list, and key of each value in ``content``."""
    for key, value in list(content.items() if isinstance(content, dict) else enumerate(content)):
        yield f"{path}/{key}", (content, key)
        if isinstance(value, dict | list):
            yield from places(value, f"{path}/{key}")


class Edits:
    """Edits of a value in files of one type, with the keys and values that these files have."""

    def __init__(self, contents: list[Any], random: random.Random):
        self.random = random
        self.values: dict[str, list[Any]] = {}
        for content in contents:
            for _, (parent, key) in places(content):
                if isinstance(parent, dict):
                    self.values.setdefault(key, []).append(parent[key])
        self.keys = [key for key, values in self.values.items() for _ in values]

    def delete(self, parent: Any, key: Any) -> None:
        del parent[key]

    def repeat(self, parent: Any, key: Any) -> None:
        if isinstance(parent, list):
            parent.insert(self.random.randrange(len(parent) + 1), parent[key])
        else:
            self.random_value(parent, key)

    def misspell(self, parent: Any, key: Any) -> None:
        if isinstance(parent, dict):
            index = self.random.randrange(len(key) + 1)
            letter = self.random.choice([*LETTERS, ""])
            parent[key[:index] + letter + key[index + 1 :]] = parent.pop(key)
        elif isinstance(parent[key], str):
            parent[key] = parent[key][1:] + self.random.choice(LETTERS)

    def rename(self, parent: Any, key: Any) -> None:
        if isinstance(parent, dict):
            parent[self.random.choice(self.keys)] = parent.pop(key)

    def add(self, parent: Any, key: Any) -> None:
        if isinstance(parent, dict):
            new = self.random.choice(self.keys)
            parent[new] = copy.deepcopy(self.random.choice(self.values[new]))

    def random_value(self, parent: Any, key: Any) -> None:
        parent[key] = copy.deepcopy(self.random.choice(VALUES))

    def value_of_another_key(self, parent: Any, key: Any) -> None:
        parent[key] = copy.deepcopy(self.random.choice(self.values[self.random.choice(self.keys)]))

    def value_elsewhere(self, parent: Any, key: Any) -> None:
        if isinstance(parent, dict):
            parent[key] = copy.deepcopy(self.random.choice(self.values[key]))

    def other_number(self, parent: Any, key: Any) -> None:
        value = parent[key]
        if isinstance(value, int | float):
            parent[key] = self.random.choice([-value, value + 1, value / 2, value * 1e7, str(value), [value]])
        else:
            self.random_value(parent, key)

    def swap(self, parent: Any, key: Any) -> None:
        other = self.random.choice(list(parent) if isinstance(parent, dict) else range(len(parent)))
        parent[key], parent[other] = parent[other], parent[key]

    def all(self) -> list[Callable[[Any, Any], None]]:
        """Return the methods that make an edit."""
        same_key = [self.delete, self.repeat, self.misspell, self.rename, self.add, self.swap]
        return [*same_key, self.random_value, self.value_of_another_key, self.value_elsewhere, self.other_number]


def main(out: Path) -> None:
    """Write a line for each edit."""
    shipped = list(files())
    types = sorted(SCHEMAS)
    of_type = {kind: [(name, content) for name, other, content in shipped if other == kind] for kind in types}
    source = random.Random(SEED)
    edits = {kind: Edits([content for _, content in of_type[kind]], source) for kind in types}
    with out.open("w", encoding="utf-8") as lines:
        for number in range(EDITS):
            kind = types[number % len(types)]
            name, content = source.choice(of_type[kind])
            edited = copy.deepcopy(content)
            path, (parent, key) = source.choice(list(places(edited)))
            edit = source.choice(edits[kind].all())
            edit(parent, key)
            try:
                SCHEMAS[kind].check(edited, name)
                result = "accepted"
            except ConfigError as error:
                result = "refused\t" + " | ".join(str(error).splitlines())
            lines.write(f"{number}\t{edit.__name__} {name}{path}\t{result}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
