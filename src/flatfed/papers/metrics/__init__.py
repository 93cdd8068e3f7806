"""The metrics of cells: functions from a ``Reading`` of one run to one number.

A metric returns the number in its stored unit, or None if the run did not reach the target. To add a metric, write a
function with ``@metric(...)`` into a file of this folder; a table's YAML uses the function's name. ``source`` is its
input:

========  =============================================================================================================
runs      metrics.csv of finished runs
timing    timing.json, measured by a separate undisturbed run; with a target, metrics.csv too
analysis  hessian.json of each run
declared  declarations of the algorithm; no runs
given     a fact of the configuration, such as a number of classes; no runs
========  =============================================================================================================
"""

from flatfed.papers.metrics import accuracy, cost, facts, flatness
from flatfed.papers.quantity import METRICS, RELATIVES, Metric, Reading, unit_of

__all__ = ["METRICS", "RELATIVES", "SETS", "Metric", "Reading", "accuracy", "cost", "facts", "flatness", "unit_of"]

#: Column of metrics.csv beyond the test accuracy -> the evaluation set that it needs.
SETS = {
    "train_accuracy": "train",
    **{f"client_{part}_{statistic}": "clients" for part in ("train", "test") for statistic in ("accuracy", "std")},
    **{f"node_{part}_accuracy": "nodes" for part in ("train", "test")},
}
