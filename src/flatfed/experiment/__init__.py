"""The configuration under config/, resolved into runs, cells, tables and figures. Pure data; imports no torch."""

from flatfed.experiment.experiment import Experiment, load
from flatfed.experiment.model import SCALES, Asked, AskedTable, Cell, Column, Drawing, Figure, Run, Table

__all__ = ["SCALES", "Asked", "AskedTable", "Cell", "Column", "Drawing", "Experiment", "Figure", "Run", "Table", "load"]
