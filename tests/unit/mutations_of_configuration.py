"""Mutants of the shipped YAML files: each has one mistake, made at one place of one file's text.

A file is read as the tree of nodes of YAML, which knows where every key and value stands; an operator says what could
stand there instead. Of all places and mistakes, a fixed number is taken for every kind of file and of mistake, in the
order of their digests: an edit of a file changes few of its mutants.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

#: Kind of file -> its files under config/.
KINDS = {
    **{name: f"{name}.yaml" for name in ("config", "datasets", "splits", "algorithms", "errata")},
    **{name: f"{name}/*.yaml" for name in ("protocols", "tables", "figures")},
}

#: A file of one's own: no shipped one, so that whoever wants mutants of it has to write it first.
OWN = "own"

FILES = {**KINDS, OWN: "tables/own.yaml"}

#: Mutants of each kind of mistake in each kind of file.
EACH = 10

#: Keys whose texts are prose, which may hold anything that can be printed.
PROSE = (
    *("label", "title", "paper", "caption", "part", "header", "row_header", "quantity", "says", "notes", "reason"),
    *("unstated", "obtain", "what", "path", "algorithm_folders", "model_folders", "where"),
)


@dataclass(frozen=True)
class Place:
    """A key or a value in a file's text: its characters, the keys and indices that lead there, what it means."""

    start: int
    end: int
    path: tuple[str | int, ...]
    is_key: bool
    value: Any
    flow: bool

    @property
    def key(self) -> str:
        """The key that is, or holds, this."""
        return _key(self.path)


@dataclass(frozen=True)
class Mutant:
    """A file with a mistake: where it was made, and what its message must say, one text of each tuple."""

    kind: str
    mistake: str
    file: str
    path: tuple[str | int, ...]
    change: str
    text: str
    says: tuple[tuple[str, ...], ...]

    @property
    def key(self) -> str:
        """The key that is, or holds, the place."""
        return _key(self.path)

    @property
    def place(self) -> str:
        """The place as one text: protocols/x.yaml: preview/targets/*."""
        return f"{self.file}: {'/'.join(map(str, self.path))}"


def _key(path: tuple[str | int, ...]) -> str:
    return next((part for part in reversed(path) if isinstance(part, str)), "")


def places(text: str) -> list[Place]:
    """Return all keys and values of a YAML text, each place of the text once."""
    found: list[Place] = []
    seen: set[int] = set()

    def visit(node: yaml.Node, path: tuple[str | int, ...], flow: bool) -> None:
        if id(node) in seen:  # an alias: what it stands for is written elsewhere
            return
        seen.add(id(node))
        start, end = node.start_mark.index, node.end_mark.index
        end = start + len(text[start:end].rstrip())
        start += len(re.match(r"(&\w+\s+)?", text[start:end])[0])  # an anchor stays
        value = yaml.safe_load(text[start:end]) if isinstance(node, yaml.ScalarNode) else node
        found.append(Place(start, end, path, False, value, flow))
        inside = flow or bool(getattr(node, "flow_style", False))
        if isinstance(node, yaml.MappingNode):
            for key, part in node.value:
                place = (*path, key.value)
                found.append(Place(key.start_mark.index, key.end_mark.index, place, True, key.value, inside))
                visit(part, place, inside)
        elif isinstance(node, yaml.SequenceNode):
            for number, part in enumerate(node.value):
                visit(part, (*path, number), inside)

    visit(yaml.compose(text, yaml.SafeLoader), (), False)
    return found


def quoted(value: Any) -> str:
    """Return ``value`` as YAML on one line."""
    return json.dumps(value, ensure_ascii=False)


# Operators: what can stand at a place in its stead, and what of it a message shows.
Change = tuple[str, tuple[tuple[str, ...], ...]]
Operator = Callable[[Place], Iterator[Change]]


def wrong_type(place: Place) -> Iterator[Change]:
    """A value of another type: texts for numbers, lists for mappings, nothing."""
    if place.is_key or not place.path:
        return
    value = place.value
    if isinstance(value, yaml.MappingNode):
        others: list[Any] = [[], "all", 7, None]
    elif isinstance(value, yaml.SequenceNode):
        others = [{"a": 1}, 7, None, True]
    elif isinstance(value, bool):
        others = ["true", 1, None, "yes"]
    elif isinstance(value, int | float):
        others = [str(value), True, [value], {"is": value}]
    else:
        others = [7, [value, value], {"is": value}, None, False]
    for other in others:
        shown = {None: ("null", "None", "nothing"), True: ("true", "True"), False: ("false", "False")}
        mark = (
            shown.get(other)
            if other is None or isinstance(other, bool)
            else (quoted(other)[:60], str(other)[:60], "'is'")
        )
        yield quoted(other), ((place.key,), mark)


def unknown_key(place: Place) -> Iterator[Change]:
    """A key more, which nothing knows, before another."""
    if place.is_key:
        for name in ("colour", "Rounds", "rounds_", "x"):
            yield f"{name}: 3{_between(place)}", ((name,),)


def misspelt_key(place: Place) -> Iterator[Change]:
    """A key with a letter too few, too many, exchanged, or in capitals."""
    if place.is_key and len(place.value) > 2:
        name = place.value
        for other in (name[:-1], name + name[-1], name[1] + name[0] + name[2:], name.capitalize()):
            if other != name:
                yield quoted(other), ((name, other),)


def out_of_range(place: Place) -> Iterator[Change]:
    """A number below or far above all that make sense."""
    if place.is_key or isinstance(place.value, bool) or not isinstance(place.value, int | float):
        return
    for other in ("-1", "-0.5", "-7", "-0.001", "1e12", "1e300", "9" * 30, "-9007199254740993", "1e17", "-3e5"):
        yield other, ((place.key,), (other, *(str(kind(other)) for kind in (int, float) if _is(kind, other))))


def key_twice(place: Place) -> Iterator[Change]:
    """A key that is there already, before itself."""
    if place.is_key:
        for value in ("1", "null", "[a]"):
            yield f"{place.value}: {value}{_between(place)}", ((place.value,), ("twice", "not YAML"))


def anchors(place: Place) -> Iterator[Change]:
    """Anchors that hold themselves, unfold without end or do not exist, merges of what is no mapping, and tags."""
    if place.is_key:
        for merged in ("<<: 3", "<<: [a]", "<<: *none"):
            yield f"{merged}{_between(place)}", (("merg", "undefined alias"),)
        return
    tenfold = "&b0 [z, z, z, z, z, z, z, z, z, z]"
    for depth in range(1, 9):
        tenfold = f"&b{depth} [{tenfold}, {', '.join([f'*b{depth - 1}'] * 9)}]"
    yield "&own [*own]", (("nested deeper",),)
    yield "&own {a: *own}", (("nested deeper",),)
    yield "*none", (("undefined alias",),)
    yield tenfold, (("anchors",),)
    yield "!!python/object/apply:os.system [id]", (("tag",),)
    yield "!!int x", (("not YAML",),)


def not_finite(place: Place) -> Iterator[Change]:
    """An infinity or not-a-number where a number or a name stands."""
    if place.is_key or isinstance(place.value, yaml.CollectionNode) or not place.path:
        return
    for other, shown in ((".inf", "inf"), ("-.inf", "-inf"), (".nan", "nan"), ("1e999", "inf")):
        yield other, ((place.key,), (shown,))


def long_name(place: Place) -> Iterator[Change]:
    """A name of hundreds or thousands of characters."""
    if _is_name(place):
        for other in ("x" * 300, place.value + "a" * 250, f"{place.value}-" * 100, "x" * 5000):
            too_long_for_a_key = ("not YAML",) if place.is_key and len(other) > 1000 else ()
            yield quoted(other), ((other[:15], *too_long_for_a_key),)


def foreign_name(place: Place) -> Iterator[Change]:
    """A name with letters that only look right, with invisible ones, or with none of ours."""
    if _is_name(place):
        name = place.value
        look_alike = name.translate(str.maketrans("aeopc", "аеорс"))  # the second ones are Cyrillic
        for other in (look_alike, f"{name}é", f"{name}\u200b", f"\u202e{name}", "数据", f"{name}😀", f"{name}ﬁ"):
            if other != name:
                yield quoted(other), ((other, repr(other)[1:-1]),)


def path_in_name(place: Place) -> Iterator[Change]:
    """A name that would lead to another folder."""
    if _is_name(place):
        name = place.value
        for other in (f"../{name}", f"{name}/../x", "/etc/passwd", "..", f"{name}/", f"~/{name}"):
            yield quoted(other), ((other,),)


def shell_in_name(place: Place) -> Iterator[Change]:
    """A name that a shell would read as more than a name."""
    if _is_name(place):
        name = place.value
        for other in (f"{name};touch x", "$(touch x)", "`touch x`", f"{name} x", f"{name}'x", f'{name}"x', f"-{name}"):
            yield quoted(other), ((other, quoted(other)[1:-1], repr(other)[1:-1]),)
        yield quoted(f"{name}|x"), ((f"{name}|x",),)
        yield quoted(f"{name}\n"), ((name,),)


def broken_text(place: Place) -> Iterator[Change]:
    """A file that is no YAML, or a word that other YAML readers take for something else than it says."""
    if not place.path:
        for other in ("", "# nothing\n", "[]", "7", "all", "null", "a: [1\n", "\ta: 1\n", "a: 1\n---\na: 1\n", "%a\n"):
            yield other, ()
    elif isinstance(place.value, bool | int | float) and not place.is_key:
        for other in ("yes", "010", "0x10", "1:30", "1_000", "2023-01-01"):
            yield other, ((place.key,), (other,))


#: Kind of mistake -> operator.
MISTAKES: dict[str, Operator] = {
    "wrong type": wrong_type,
    "unknown key": unknown_key,
    "misspelt key": misspelt_key,
    "out of range": out_of_range,
    "key twice": key_twice,
    "anchors, merges, tags": anchors,
    "not finite": not_finite,
    "long name": long_name,
    "non-ASCII name": foreign_name,
    "path in a name": path_in_name,
    "shell in a name": shell_in_name,
    "not YAML, or YAML 1.1": broken_text,
}


def _between(place: Place) -> str:
    """What separates a new key from the one at ``place``, before which it is put."""
    return ", " if place.flow else "\n"


def _is(kind: type, text: str) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


def _is_name(place: Place) -> bool:
    prose = not place.is_key and (place.key in PROSE or "unstated" in place.path)
    return isinstance(place.value, str) and not prose and re.fullmatch(r"[A-Za-z0-9][\w.~-]*", place.value) is not None


def mutants(root: Path, kind: str) -> Iterator[Mutant]:
    """Yield the mutants of one kind of file under ``root``/config: EACH of every kind of mistake."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted((root / "config").glob(FILES[kind]))}
    spots = [(path, place) for path, text in texts.items() for place in places(text)]
    for mistake, operator in MISTAKES.items():
        found: dict[str, Mutant] = {}
        for path, place in spots:
            file = path.relative_to(root / "config").as_posix()
            for change, says in operator(place):
                mutant = Mutant(kind, mistake, file, place.path, change, _put(texts[path], place, change), says)
                found[_digest(mutant)] = mutant
        yield from [mutant for _, mutant in sorted(found.items())[:EACH]]


def _put(text: str, place: Place, change: str) -> str:
    """Return ``text`` with ``change`` in place of a value or key, or, ending as such, before a key."""
    if not place.path:
        return change
    if change.endswith(", "):
        return text[: place.start] + change + text[place.start :]
    if change.endswith("\n"):
        column = place.start - text.rfind("\n", 0, place.start) - 1
        return text[: place.start] + change + " " * column + text[place.start :]
    return text[: place.start] + change + text[place.end :]


def _digest(mutant: Mutant) -> str:
    return hashlib.sha256(f"{mutant.mistake} {mutant.place} {mutant.change}".encode()).hexdigest()
