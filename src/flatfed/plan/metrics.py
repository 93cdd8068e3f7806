"""The metrics of cells: functions from a ``Reading`` of one run to a number in the stored unit, or None.

To add a metric, ``register`` its function. Its name is the id in YAML. Its ``source``:

========  =============================================================================================================
runs      metrics.csv of finished runs
timing    timing.json of a separate, undisturbed run; with a target, metrics.csv too
hessian   hessian.json
clients   clients.csv
declared  declarations of the algorithm
========  =============================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from flatfed.plan.units import RELATIVES
from flatfed.runs.curvature import Hessian
from flatfed.runs.run import CLIENTS, HESSIAN

#: Accuracy for targets and the best round -> the evaluation set that it needs.
ACCURACIES = {
    **{"test_accuracy": "test", "client_test_accuracy": "clients"},
    **{"validation_accuracy": "validation", "client_validation_accuracy": "clients"},
}

#: Of a protocol.
DEFAULT_ACCURACY = "test_accuracy"


@dataclass(frozen=True)
class Reading:
    """The input of a metric from one run.

    ``history``: columns of metrics.csv, one entry per evaluated round; rounds count from 1, bytes are totals.
    ``accuracy``: the column whose centred mean of ``smoothing`` entries reaches ``target``. ``timing``: seconds of one
    round by name. ``hessian``: the content of hessian.json. ``clients``: client or summary of clients.csv -> accuracy.
    ``algorithm``: has stored_vectors(), communication and
    gradients_per_step.
    """

    window: int = 1
    smoothing: int = 1
    target: float | None = None
    accuracy: str = DEFAULT_ACCURACY
    history: Mapping[str, Sequence[float]] = field(default_factory=dict)
    timing: Mapping[str, float] = field(default_factory=dict)
    hessian: Hessian | None = None
    clients: Mapping[str, float] = field(default_factory=dict)
    algorithm: Any = None

    def final(self, column: str) -> float:
        """Return the column's mean over the last ``window`` evaluated rounds."""
        return fmean(self.history[column][-self.window :])

    def at_crossing(self, column: str) -> float | None:
        """Return the column's entry in the first round that reaches the target, or None.

        The first and the last ``smoothing`` // 2 rounds have no centred mean.
        """
        accuracies, half = self.history[self.accuracy], self.smoothing // 2
        means = (fmean(accuracies[at - half : at + half + 1]) for at in range(half, len(accuracies) - half))
        return next((self.history[column][at] for at, mean in enumerate(means, half) if mean >= self.target), None)


def evaluations(window: int) -> str:
    """Return the evaluations in a final number, in words."""
    return "final round" if window == 1 else f"mean over the last {window} evaluated rounds"


@dataclass(frozen=True)
class Metric:
    """A metric of a run.

    ``unit``: the stored unit. ``source``: the kind of input (above). ``columns``: its columns
    of metrics.csv. ``words``: its name in a caption. ``higher``: whether larger is better, None for neither.
    ``printed_as``: its name in config/reference. ``needs_target``: whether it needs a target accuracy. ``relative``: a
    fixed comparison with a base row (:data:`RELATIVES`), None if a table chooses. ``defined``: the note under its
    tables. ``declares``: whether it also reads declarations of the algorithm.
    """

    function: Callable[[Reading], float | None]
    unit: str
    source: str
    columns: tuple[str, ...]
    words: str
    higher: bool | None
    printed_as: str
    needs_target: bool = False
    relative: str | None = None
    defined: str = ""
    declares: bool = False

    @property
    def analysis(self) -> str:
        """The file of a run's analyses that the metric reads, or ""."""
        return {"hessian": HESSIAN, "clients": CLIENTS}.get(self.source, "")

    @property
    def needs_runs(self) -> bool:
        """Whether the metric reads metrics.csv."""
        return self.source == "runs" or (self.source == "timing" and self.needs_target)


#: Metric name -> metric.
METRICS: dict[str, Metric] = {}


def unit_of(name: str, relative: str | None) -> str:
    """Return the stored unit of metric ``name`` compared as ``relative``."""
    return (relative and RELATIVES[relative].unit) or METRICS[name].unit


def register(name: str, function: Callable, unit: str, words: str, *columns: str, source: str = "runs", **options):
    """Register the metric ``name`` in ``METRICS``."""
    METRICS[name] = Metric(function, unit, source, columns, words, **{"printed_as": name, **options})


#: Column of metrics.csv -> the evaluation set that it needs.
SETS = {
    "train_accuracy": "train",
    **{f"{part}_{statistic}": part for part in ("test", "validation") for statistic in ("accuracy", "loss")},
    **{
        f"client_{part}_{statistic}": "clients"
        for part in ("train", "test", "validation")
        for statistic in ("accuracy", "std")
    },
    **{f"node_{part}_accuracy": "nodes" for part in ("train", "test")},
}


def _register_final(name: str, words: str, *columns: str, unit: str = "fraction", higher: bool = True, **options):
    """Register the metric ``name``: the final value of the first column (default: ``name``) minus those of the others.

    The papers print client and node metrics without prefix.
    """
    first, *subtracted = columns = columns or (name,)
    printed_as = name.removeprefix("client_").removeprefix("node_")

    def value(reading: Reading) -> float:
        return reading.final(first) - sum(map(reading.final, subtracted))

    register(name, value, unit, words, *columns, higher=higher, printed_as=printed_as, **options)


def _register_crossing(name: str, column: str, unit: str, words: str, seconds: str | None = None, **options):
    """Register the metric ``name``: ``column`` in the first round that reaches the target; times ``seconds`` of it."""

    def value(reading: Reading) -> float | None:
        reached = reading.at_crossing(column)
        return reached * reading.timing[seconds] if seconds and reached is not None else reached

    register(name, value, unit, words, column, higher=False, needs_target=True, **options)


# The mean over final rounds, never the best.
_register_final("test_accuracy", "Test accuracy")
# On held-out training images: a protocol with ``validation``.
_register_final("validation_accuracy", "Accuracy on held-out training images")
_register_final("client_validation_accuracy", "Accuracy on held-out training images, mean over clients")
# Of the last round, whatever the protocol's ``evaluation.window``.
register(
    "last_test_accuracy", lambda reading: reading.history["test_accuracy"][-1], "fraction",
    "Test accuracy of the last round", "test_accuracy", higher=True, printed_as="test_accuracy",
)
# On all training images.
_register_final("train_accuracy", "Train accuracy")
_register_final("test_loss", "Test loss", unit="nats", higher=False)
_register_final("train_loss", "Training loss", unit="nats", higher=False)
# DFedSAM, 5.2; erratum D1: errors of the paper's table.
_register_final("generalization_error", "Generalization error", "train_accuracy", "test_accuracy", higher=False)
# FedSAM, Table 1: "Train", and "Validation" on test images drawn according to the client's labels.
_register_final("client_train_accuracy", "Train accuracy, mean over clients")
_register_final("client_test_accuracy", "Test accuracy, mean over clients")
# DFedSAM, Table 1, "Train": the node's model after local training.
_register_final("node_train_accuracy", "Train accuracy of each node's own model on its own images, mean over nodes")
# As in DisPFL's code, the basis of DFedSAM's experiments; DFedSAM's tables show test_accuracy.
_register_final(
    "node_test_accuracy", "Test accuracy of each node's own model on test images of its own labels, mean over nodes"
)
# DFedSAM, Table 1: the nodes' models compared with their mean.
_register_final(
    "node_generalization_error", "Train accuracy of the nodes' own models minus test accuracy of their mean",
    "node_train_accuracy", "test_accuracy", higher=False,
)
# FedSAM, Table 1, "(std)".
_register_final("train_client_std", "Deviation of train accuracy over clients", "client_train_std", higher=False)
_register_final("test_client_std", "Deviation of test accuracy over clients", "client_test_std", higher=False)
# FedSMOO, Table 2: mean of ||w_i - w^{t+1}||^2 over active clients; smaller is better.
_register_final("consistency", "Consistency", unit="squared_l2", higher=False)
# FedLESAM, Table 4: mean over all settings. A column with ``mean: true`` averages each seed's runs.
_register_final("mean_test_accuracy", "Mean test accuracy", "test_accuracy")
_register_final("mean_test_accuracy_gain", "Gain in mean test accuracy", "test_accuracy", relative="difference")

#: Bytes of one transmitted parameter (float32).
PARAMETER = 4

# FedSMOO, Table 6. Once reached, a target stays reached, as in the papers (FedSAM, Table 1, FedRobust).
_register_crossing("rounds_to_target", "round", "rounds", "Rounds to target")
# Of all active clients.
_register_crossing("download_to_target", "download_bytes", "bytes", "Bytes sent to clients until target")
_register_crossing("upload_to_target", "upload_bytes", "bytes", "Bytes sent by clients until target")


def communication_cost(reading: Reading) -> float | None:
    """Parameters until the target, counted as the papers do: twice the larger of the two directions.

    FedSMOO, Table 3: rounds times 1 or 2. FedLESAM, Tables 5 and 9: FedAvg's 156 GB at 723 rounds are its model, down
    and up, for ten clients (to 4 %, unexplained); FedLESAM-D counts 2, as in Table 7 (``Algorithm.counted``).
    """
    traffic = reading.at_crossing("download_bytes"), reading.at_crossing("upload_bytes")
    if None in traffic:
        return None
    sent = max(reading.algorithm.communication)
    return 2 * max(traffic) / PARAMETER * (reading.algorithm.counted or sent) / sent


register(
    "communication_cost", communication_cost, "parameters", "Communication cost to target, as the papers count it",
    "download_bytes", "upload_bytes", higher=False, needs_target=True, declares=True,
    defined=(
        "Communication is counted as the papers do: twice the larger of an active client's two directions. FedCM and "
        "MoFedSAM, with two vectors down and one up, count as two each way. The metrics download_to_target and "
        "upload_to_target count the bytes sent."
    ),
)

#: FedLESAM, Table 8: "including training, loading and evaluation".
WALL = (
    "Seconds of a round: training and loading of the expected number of clients, and an evaluation of all training and "
    "all test images after it, as the official code's clock runs."
)


# FedSMOO, Table 7; FedLESAM, Table 8.
register(
    "seconds_per_round", lambda reading: reading.timing["seconds_per_round"], "seconds", "Wall-clock time per round",
    higher=False, source="timing", defined=WALL,
)
# FedSMOO, Table 7.
_register_crossing(
    "total_seconds", "round", "seconds", "Wall-clock time to target", "seconds_per_round", source="timing", defined=WALL
)
# FedLESAM, Tables 5 and 9: seconds of a round without evaluation.
_register_crossing(
    "compute_time_to_target", "round", "seconds", "Computation time to target", "training_seconds_per_round",
    source="timing",
    defined=(
        "Computing time: rounds times the seconds in which the expected number of clients of a round train, one after "
        "another or together as the executor does, without evaluation. The paper's \"computational times of all "
        'clients" are not defined.'
    ),
)

# FedLESAM, Table 7: vectors of the model's size that a client holds, and those in an active client's larger direction;
# gradient evaluations of one local step.
for name, words, declared in (
    ("stored_memory", "Stored memory", lambda method: method.stored_vectors()),
    ("communication_per_round", "Communication per round", lambda method: max(method.communication)),
    ("backpropagation_per_local_step", "Backpropagation per local step", lambda method: method.gradients_per_step),
):
    value = lambda reading, declared=declared: declared(reading.algorithm)  # noqa: E731
    register(name, value, "count", words, higher=False, source="declared")

# Curvature of the training loss at a final model (FedSMOO, Table 2). The scaled metrics, of diag(|w|) H diag(|w|), are
# invariant to the scaling of filters.
WORDS = {
    "hessian_top_eigenvalue": "Top eigenvalue of the Hessian",
    "hessian_trace": "Trace of the Hessian",
    "hessian_scaled_top_eigenvalue": "Top eigenvalue of the Hessian scaled by the weights",
    "hessian_scaled_trace": "Trace of the Hessian scaled by the weights",
}
for name, words in WORDS.items():
    value = lambda reading, name=name: reading.hessian.value(name)  # noqa: E731
    register(name, value, "number", words, higher=False, source="hessian")

register(
    "worst_tenth_accuracy", lambda reading: reading.clients["worst_tenth"], "fraction",
    "Test accuracy of the worst tenth of the clients", higher=True, source="clients",
    defined=(
        "Worst tenth: mean of the lowest tenth, rounded up, of the clients' accuracies of the final model, each on "
        "1,000 test images, or all if fewer, drawn in proportion to the classes of the client's training images."
    ),
)
