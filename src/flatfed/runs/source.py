"""The source code at hand: its commit, the digest of the package, the digest of a user's file."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from flatfed.errors import ConfigError

PACKAGE = Path(__file__).resolve().parents[1]


def commit() -> str | None:
    """Return the commit of this copy of FlatFed, with a mark if it was changed; None outside of git."""
    root = PACKAGE.parents[1]
    if not (root / ".git").exists():
        return None
    asked = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=7", "--exclude=*"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
        return answer.replace("-dirty", " and changes since")
    return None


def package_digest() -> str:
    """Return the SHA-256 of all files of the package: tables, figures and the report rerun when it changes."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(PACKAGE)}\n".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def syntax_digest(paths: Iterable[Path]) -> str:
    """Return the SHA-256 of the syntax trees of Python files, without comments, docstrings and formatting.

    It is the same in Python 3.11 and 3.12.

    :raises ConfigError: a file is not Python.
    """
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.name}\n".encode())
        try:
            tree = ast.parse(path.read_bytes(), str(path))
        except (SyntaxError, ValueError) as error:
            raise ConfigError(f"{path}: is not Python: {error}") from error
        digest.update("".join(_dump(tree)).encode())
    return digest.hexdigest()


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
