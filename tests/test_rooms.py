"""The rooms of the package: each imports only those before it, also for types; the engine's core knows no wrapper."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from repository import SRC

#: From the ground up; a room is a file or a folder of flatfed, and rooms on one line do not import each other.
ORDER = (
    ("errors",),
    ("files", "gpus", "user_files"),
    ("config", "algorithms"),
    ("models", "data"),
    ("runs",),
    ("engine",),
    ("plan",),
    ("analysis",),
    ("tables",),
    ("figures",),
    ("snakemake_support",),
    ("commands",),
    ("cli",),
    ("__main__",),
)


def imported(path: Path) -> Iterator[str]:
    """Yield the dotted names in flatfed that a file imports, also for types and in functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "flatfed":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("flatfed."))


CORE = sorted((SRC / "flatfed/engine").glob("*.py"))


@pytest.mark.parametrize("path", CORE, ids=lambda path: path.stem)
def test_the_core_of_the_engine_knows_nothing_of_what_wraps_it(path):
    around = tuple(f"flatfed.engine.{room}" for room in ("speed", "memory", "checks", "job"))
    assert [name for name in imported(path) if name.startswith(around)] == []


@pytest.mark.parametrize("path", sorted((SRC / "flatfed").rglob("*.py")), ids=lambda path: str(path.relative_to(SRC)))
def test_a_room_imports_only_rooms_below_it(path):
    own = path.relative_to(SRC / "flatfed").parts[0].removesuffix(".py")
    below = {"__version__", own}
    for rooms in ORDER:
        if own in rooms:
            break
        below.update(rooms)
    assert [name for name in imported(path) if name.split(".")[1] not in below] == []


@pytest.mark.parametrize("room", sorted(room for rooms in ORDER for room in rooms))
def test_no_imports_of_a_room_form_a_circle(room):
    files = {".".join(path.relative_to(SRC).with_suffix("").parts): path for path in SRC.rglob("*.py")}
    own = {module: path for module, path in files.items() if module.split(".")[1] == room}
    imports = {module: set(imported(path)) for module, path in own.items()}
    graph = {name: {m if m in own else m.rpartition(".")[0] for m in imports[name]} & own.keys() for name in own}
    assert set(TopologicalSorter(graph).static_order()) == own.keys()


def test_no_two_files_have_one_name():
    names = [path.name for path in SRC.rglob("*.py") if not path.name.startswith("__")]
    assert sorted(name for name, times in Counter(names).items() if times > 1) == []
