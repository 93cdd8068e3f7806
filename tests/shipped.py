"""The configuration of this repository, loaded once for all tests."""

from pathlib import Path

from flatfed import plan

EXP = plan.load(Path(__file__).parents[1])
