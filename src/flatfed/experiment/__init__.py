"""The configuration in config/, resolved into runs, cells, tables and figures. Pure data; does not import torch."""

from flatfed.experiment.cell_specs import cell, cells, table_runs
from flatfed.experiment.experiment import Experiment
from flatfed.experiment.figure_specs import figure_spec
from flatfed.experiment.loading import load
from flatfed.experiment.model import Asked, AskedTable, CellSpec, Run, TableSpec
from flatfed.experiment.panels import FigureSpec
from flatfed.experiment.run_specs import dataset_spec, partition_spec, run
from flatfed.experiment.table_specs import table_spec
from flatfed.runs.paths import SCALES

__all__ = [
    "SCALES", "Asked", "AskedTable", "CellSpec", "Experiment", "FigureSpec", "Run", "TableSpec", "cell", "cells",
    "dataset_spec", "figure_spec", "load", "partition_spec", "run", "table_runs", "table_spec",
]  # fmt: skip
