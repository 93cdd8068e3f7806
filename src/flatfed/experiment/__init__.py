"""The configuration under config/, resolved into runs, cells, tables and figures. Pure data; imports no torch."""

from flatfed.experiment.experiment import Experiment, load
from flatfed.experiment.model import Asked, AskedTable, CellSpec, Column, Figure, Run, Table, TableSpec
from flatfed.experiment.panels import FigureSpec
from flatfed.runs.places import SCALES

__all__ = [
    "SCALES", "Asked", "AskedTable", "CellSpec", "Column", "Experiment", "Figure", "FigureSpec", "Run", "Table",
    "TableSpec", "load",
]  # fmt: skip
