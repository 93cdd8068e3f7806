"""The configuration in config/, resolved into runs, cells, tables and figures. Does not import torch."""

from flatfed.experiment.cell_specs import cell, cells
from flatfed.experiment.experiment import Experiment
from flatfed.experiment.figure_specs import figure_spec
from flatfed.experiment.loading import load
from flatfed.experiment.model import CellSpec, Requested, RequestedTable, Run, TableSpec
from flatfed.experiment.panels import FigureSpec
from flatfed.experiment.run_specs import dataset_spec, partition_spec, run
from flatfed.experiment.table_specs import table_spec
from flatfed.runs.places import SCALES

__all__ = [
    "SCALES", "CellSpec", "Experiment", "FigureSpec", "Requested", "RequestedTable", "Run", "TableSpec", "cell",
    "cells", "dataset_spec", "figure_spec", "load", "partition_spec", "run", "table_spec",
]  # fmt: skip
