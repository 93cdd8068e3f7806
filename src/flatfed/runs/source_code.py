"""The commit of FlatFed's source code, and digests of source files."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import subprocess
from collections.abc import Iterable
from pathlib import Path

from flatfed.errors import ConfigError

PACKAGE = Path(__file__).resolve().parents[1]

#: Nodes of a syntax tree that may begin with a docstring.
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def commit() -> str | None:
    """Return the commit of this copy of FlatFed, marked if files changed since; None outside git."""
    root = PACKAGE.parents[1]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=7", "--exclude=*"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        name = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
        return name.replace("-dirty", " and changes since")
    return None


def package_digest() -> str:
    """Return the SHA-256 of all files of the package: a change rebuilds tables, figures and the report."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(PACKAGE)}\n".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def syntax_digest(paths: Iterable[Path]) -> str:
    """Return the SHA-256 of the syntax trees of Python files, without docstrings; Python 3.11 and 3.12 agree.

    :raises ConfigError: a file is not Python.
    """
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.name}\n".encode())
        try:
            tree = ast.parse(path.read_bytes(), str(path))
        except (SyntaxError, ValueError) as error:
            raise ConfigError(f"{path}: is not Python: {error}") from error
        for node in ast.walk(tree):
            if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
                node.body = node.body[1:]
        digest.update(ast.dump(tree).replace(", type_params=[]", "").encode())  # new in Python 3.12
    return digest.hexdigest()
