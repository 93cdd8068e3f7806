"""The published CSV files, checked against results/published/SHA256SUMS (a file of `sha256sum`)."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

from flatfed.files import digest_file

ROOT = Path(__file__).resolve().parents[1]
PUBLISHED = ROOT / "results/published"


def read_csv(file: str | Path, **options: object) -> pd.DataFrame:
    """Return the CSV ``file``; ``options``: of pandas. Ends the script if a published file is not the listed one."""
    path = ROOT / file
    if path.is_relative_to(PUBLISHED):
        name = path.relative_to(PUBLISHED).as_posix()
        lines = (PUBLISHED / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
        if f"{digest_file(path)}  {name}" not in lines:
            listed = "is not the file whose SHA-256 is in results/published/SHA256SUMS"
            sys.exit(f"{path.relative_to(ROOT)} {listed}. Restore it, or list the new one: sha256sum {name}")
    return pd.read_csv(path, **options)
