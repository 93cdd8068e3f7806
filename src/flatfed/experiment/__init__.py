"""The configuration in config/, resolved into runs, cells, tables and figures. Does not import torch."""

from flatfed.experiment.experiment import Experiment
from flatfed.experiment.loading import load
from flatfed.experiment.model import CellSpec, Requested, RequestedTable, Run
from flatfed.runs.paths import SCALES

__all__ = ["SCALES", "CellSpec", "Experiment", "Requested", "RequestedTable", "Run", "load"]
