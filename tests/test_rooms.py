"""The rooms of the package: each imports only those before it, also for types; the engine's core knows no wrapper."""

from __future__ import annotations

import ast
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from repository import ROOT, SRC

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
    ("commands",),
    ("cli",),
    ("__main__",),
)


def imported(path: Path) -> list[str]:
    """Return the dotted names that a file imports, also for types and in functions; relative ones are none."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and not node.level:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return names


@pytest.fixture(scope="module")
def imports():
    """Module of the package -> what it imports."""
    return {".".join(path.relative_to(SRC).with_suffix("").parts): imported(path) for path in SRC.rglob("*.py")}


def room(name: str) -> str:
    return name.split(".")[1]


def test_a_room_imports_only_rooms_below_it(imports):
    """Snakemake is above all of them."""
    wrong = []
    for module, names in imports.items():
        below = {"__version__", room(module)}
        for rooms in ORDER:
            if room(module) in rooms:
                break
            below.update(rooms)
        wrong += [(module, name) for name in names if name.startswith("flatfed.") and room(name) not in below]
        wrong += [(module, name) for name in names if name.split(".")[0] == "snakemake"]
    assert wrong == []


def test_the_core_of_the_engine_knows_nothing_of_what_wraps_it(imports):
    around = tuple(f"flatfed.engine.{folder}" for folder in ("speed", "checks", "job"))
    core = [module for module in imports if module.rpartition(".")[0] == "flatfed.engine"]
    assert [(module, name) for module in core for name in imports[module] if name.startswith(around)] == []


def test_no_imports_form_a_circle(imports):
    graph = {name: {m if m in imports else m.rpartition(".")[0] for m in names} for name, names in imports.items()}
    assert set(TopologicalSorter(graph).static_order()) >= imports.keys()


def test_no_two_files_have_one_name(imports):
    """Neither in the package nor among the tests, which pytest imports by their names."""
    names = [module.rpartition(".")[2] for module in imports]
    names += [path.stem for path in (ROOT / "tests").rglob("test_*.py")]
    assert [name for name, times in Counter(names).items() if times > 1 and not name.startswith("__")] == []
