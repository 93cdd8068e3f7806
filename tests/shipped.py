"""The configuration of this repository, loaded once for all tests."""

from pathlib import Path

from flatfed import experiment

EXP = experiment.load(Path(__file__).parents[1])
