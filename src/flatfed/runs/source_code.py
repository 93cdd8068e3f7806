"""The commit and the digest of FlatFed's source code."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import subprocess
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]

#: Mark of a commit from which the sources differ.
CHANGED = " and changes since"


def commit() -> str | None:
    """Return the commit of this copy of FlatFed, marked if files in src changed since; None outside git.

    Copies for a GPU host have it in FLATFED_COMMIT.
    """
    root = PACKAGE.parents[1]
    if "FLATFED_COMMIT" in os.environ or not (root / ".git").exists():
        return os.environ.get("FLATFED_COMMIT")
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        run = functools.partial(subprocess.run, cwd=root, capture_output=True, text=True, timeout=10, check=True)
        commit = run(["git", "rev-parse", "--short=12", "HEAD"]).stdout.strip()
        changes = run(["git", "--no-optional-locks", "status", "--porcelain", "--", "src"]).stdout
        return commit + CHANGED * bool(changes)
    return None


@functools.cache
def package_digest(folders: tuple[str, ...] = ()) -> str:
    """Return the SHA-256 of all files of the package, as they were at the first call of the process.

    ``folders``: folders of the user, whose Python files it includes.
    """
    digest = hashlib.sha256()
    shipped = [path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    for path in [*sorted(shipped), *(path for folder in folders for path in sorted(Path(folder).glob("*.py")))]:
        name = path.relative_to(PACKAGE) if path.is_relative_to(PACKAGE) else path.name
        digest.update(f"{name}\n".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
