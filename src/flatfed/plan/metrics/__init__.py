"""The metrics of cells: functions from a ``Reading`` of one run to a number in the stored unit, or None.

To add a metric, write a function with ``@metric(...)`` in this folder. Its name is the id in YAML. Its ``source``:

========  =============================================================================================================
runs      metrics.csv of finished runs
timing    timing.json of a separate, undisturbed run; with a target, metrics.csv too
analysis  hessian.json
declared  declarations of the algorithm
config    a fact of the configuration, such as a number of classes
========  =============================================================================================================
"""

from flatfed.plan.metrics import accuracy, cost, facts, flatness
from flatfed.plan.quantity import METRICS, RELATIVES, Metric, Reading, unit_of

__all__ = ["METRICS", "RELATIVES", "SETS", "Metric", "Reading", "accuracy", "cost", "facts", "flatness", "unit_of"]

#: Column of metrics.csv -> the evaluation set that it needs.
SETS = {
    "train_accuracy": "train",
    **{f"client_{part}_{statistic}": "clients" for part in ("train", "test") for statistic in ("accuracy", "std")},
    **{f"node_{part}_accuracy": "nodes" for part in ("train", "test")},
}
