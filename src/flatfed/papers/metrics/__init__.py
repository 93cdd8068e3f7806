"""The metrics a cell can hold: one function each, from what is known of one run to one number.

A metric takes a ``Reading`` and returns the number in its stored unit, or None where a target was not reached. To add
one, write its function into a file here under ``@metric(...)``; its name is what a table's YAML says. ``source`` is
what it reads:

========  =============================================================================================================
runs      metrics.csv of finished runs
timing    timing.json, measured by an undisturbed run of its own; with a target, metrics.csv too
analysis  hessian.json of each run
declared  what the algorithm declares of itself; no runs
given     a fact of the configuration, such as a number of classes; no runs
========  =============================================================================================================
"""

from flatfed.papers.metrics import accuracy, cost, facts, flatness
from flatfed.papers.quantity import METRICS, RELATIVES, Metric, Reading, unit_of

__all__ = ["METRICS", "RELATIVES", "SETS", "Metric", "Reading", "accuracy", "cost", "facts", "flatness", "unit_of"]

#: Columns of metrics.csv that a run has where its protocol evaluates more than test images -> the set they are of.
SETS = {
    "train_accuracy": "train",
    **{f"client_{part}_{what}": "clients" for part in ("train", "test") for what in ("accuracy", "std")},
    **{f"node_{part}_accuracy": "nodes" for part in ("train", "test")},
}
