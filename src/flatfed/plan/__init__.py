"""The configuration in config/, resolved into runs, cells, tables and figures. Does not import torch."""

from flatfed.plan.experiment import Experiment, Requested
from flatfed.plan.loading import load
from flatfed.plan.number import Number
from flatfed.runs.paths import SCALES
from flatfed.runs.run import Run

__all__ = ["SCALES", "Experiment", "Number", "Requested", "Run", "load"]
