"""Where the project lies, for tests at any depth."""

from pathlib import Path

#: Folder of the Snakefile, and of the package's sources.
ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src"
