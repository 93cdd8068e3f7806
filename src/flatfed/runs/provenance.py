"""Digests of source code: what a job runs, comments, docstrings and formatting aside.

Snakemake does not see which modules a shell command imports. The digest of a job's modules and of everything in flatfed
that they import, statically, is a parameter of its rule: a change that can change numbers runs the job again, any other
does not. What is imported by a computed name (the registries of algorithms and models) is not followed, so that the
digest of a run holds its own algorithm's file and no other's.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from flatfed import algorithms
from flatfed.files import digest_file, read_json, write_json

PACKAGE = "flatfed"
SRC = Path(__file__).resolve().parents[2]

#: What all trainings run, and the list of its digests that were shown to train the same bytes.
SHARED = (f"{PACKAGE}.engine.job.train", f"{PACKAGE}.engine.job.together")
SAME_BYTES = Path(__file__).parents[1] / "same_bytes.json"


def run_digest(description: dict[str, Any], src: Path = SRC) -> str:
    """Return the digest of the code that trains the run ``description``.

    Code that moves changes its digest and not what it trains. ``same_bytes.json`` lists digests of what all trainings
    share that were shown to give the same bytes (``make same-bytes``). A group of them has one behaviour: ``digests``,
    and the ``files`` of the first, by module, which stand for all; ``algorithms``: digest of an algorithm's own file ->
    that of the first. So finished runs are not made again.
    """
    return _run_digest(Path(src), SAME_BYTES, description["update"]["name"], description["model"]["name"])


@cache
def _run_digest(src: Path, same_bytes: Path, algorithm: str, model: str) -> str:
    shared = files(src, SHARED)
    digest = _digest(shared)
    group = _group(digest, same_bytes)
    first = group.get("algorithms", {})
    own = files(src, (f"{PACKAGE}.algorithms.{algorithm}", f"{PACKAGE}.models.{model}"))
    own = {module: first.get(digest, digest) for module, digest in own.items() if module not in shared}
    return _digest({**own, **group.get("files", shared)})


def commit() -> str | None:
    """Return the commit of this copy of FlatFed, with a mark if it was changed; None outside of git."""
    root = SRC.parent
    if not (root / ".git").exists():
        return None
    asked = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=7", "--exclude=*"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
        return answer.replace("-dirty", " and changes since")
    return None


def code_digest(src: Path, modules: Iterable[str]) -> str:
    """Return the SHA-256 over the ``modules`` and all modules of flatfed that they import, found under ``src``.

    The templates of a package (its folder ``templates``) count as its code. A group in ``same_bytes.json`` has the
    digest of its first.

    :raises FileNotFoundError: one of ``modules`` does not exist.
    """
    digest = _digest(files(Path(src), tuple(modules)))
    return _group(digest, SAME_BYTES).get("digests", [digest])[0]


@cache
def files(src: Path, modules: tuple[str, ...]) -> dict[str, str]:
    """Return module -> digest of its file, and those of its templates, for ``modules`` and all that they import."""
    digests = {}
    for module in closure(src, modules):
        path = _file(src, module)
        digests[module] = _parsed(path, module)["digest"]
        if path.name == "__init__.py":
            for template in sorted(path.parent.glob("templates/*")):
                digests[module] += f"\n{template.name} {digest_file(template)}"
    return digests


@cache
def _group(digest: str, same_bytes: Path) -> dict[str, Any]:
    """Return the group of ``digest`` in the list ``same_bytes``, {} if it is in none."""
    return next((group for group in read_json(same_bytes) if digest in group["digests"]), {})


def _digest(digests: dict[str, str]) -> str:
    """Return the SHA-256 of the digests of files, in the order of their modules."""
    lines = (f"{module} {digest}\n" for module, digest in sorted(digests.items()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def closure(src: Path, modules: Iterable[str]) -> list[str]:
    """Return ``modules``, the packages they are in, and all modules of flatfed that any of these import; sorted."""
    followed: set[str] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module in followed:
            continue
        path = _file(src, module)
        if path is None:
            raise FileNotFoundError(f"no module {module} under {src}")
        followed.add(module)
        # Importing a.b.c runs a/__init__.py and a/b/__init__.py as well.
        parts = module.split(".")
        waiting += [".".join(parts[:depth]) for depth in range(1, len(parts))]
        for name in _parsed(path, module)["imports"]:
            waiting.append(name if _file(src, name) else name.rpartition(".")[0])
    return sorted(followed)


@cache
def _file(src: Path, module: str) -> Path | None:
    """Return the file of ``module``, None if there is none (then it is a name inside a module)."""
    path = src.joinpath(*module.split("."))
    files = [path.with_suffix(".py"), path / "__init__.py"]
    if module.startswith(f"{PACKAGE}.algorithms."):
        files += [Path(folder, f"{path.name}.py") for folder in algorithms.__path__[1:]]
    return next((file for file in files if file.is_file()), None)


@cache
def _parsed(path: Path, module: str) -> dict[str, Any]:
    """Return the ``digest`` of the file ``path`` of ``module``, and its ``imports`` (:func:`_names`).

    Parsing all of flatfed takes as long as starting Python, in every job. So the result is kept beside Python's own
    compiled files, wherever they can be written, with a digest of the source and of this file's own source.
    """
    content = path.read_bytes()
    source = hashlib.sha256(_own_source() + module.encode() + content).hexdigest()
    kept = path.parent / "__pycache__" / f"{path.stem}.provenance.json"
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        earlier = read_json(kept)
        if earlier["source"] == source:
            return earlier
    tree = ast.parse(content.decode("utf-8"), str(path))
    digest = hashlib.sha256("".join(_dump(tree)).encode()).hexdigest()
    result = {"source": source, "digest": digest, "imports": _names(tree, path, module)}
    if not sys.dont_write_bytecode:
        with contextlib.suppress(OSError):
            write_json(kept, result)
    return result


@cache
def _own_source() -> bytes:
    return Path(__file__).read_bytes()


def _names(tree: ast.Module, path: Path, module: str) -> list[str]:
    """Return the dotted names in flatfed that ``tree`` imports: modules, and names inside modules."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    names: list[str] = []
    for node in _run_time(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names += [f"{base}.{alias.name}" for alias in node.names]
    return [name for name in names if name.split(".")[0] == PACKAGE]


def _run_time(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below ``node`` that exist at run time: not the imports that only a type checker sees."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        yield child
        yield from _run_time(child)


def _dump(value: Any) -> Iterator[str]:
    """Yield a syntax tree as text. Unlike ast.dump, the same for Python 3.11 and 3.12, which adds empty fields."""
    if isinstance(value, ast.AST):
        yield f"{type(value).__name__}("
        for name, part in ast.iter_fields(value):
            if name == "body" and isinstance(part, list) and _has_docstring(value):
                part = part[1:]
            if isinstance(value, ast.Constant) or (part is not None and part != []):
                yield f"{name}="
                yield from _dump(part)
        yield ")"
    elif isinstance(value, list):
        for part in value:
            yield from _dump(part)
            yield ","
    else:
        yield repr(value)


def _has_docstring(node: ast.AST) -> bool:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None
