"""The configuration under config/, resolved into runs, cells, tables and figures. Pure data; imports no torch."""

from flatfed.experiment.experiment import Experiment, load
from flatfed.experiment.model import Asked, AskedTable, Cell, Column, Drawing, Figure, Run, Table
from flatfed.specs.cell import SCALES

__all__ = ["SCALES", "Asked", "AskedTable", "Cell", "Column", "Drawing", "Experiment", "Figure", "Run", "Table", "load"]
