"""The metrics a cell can hold: one function each, from what is known of one run to one number.

A metric takes a ``Reading`` and returns the number in its stored unit, or None where a target was not reached. To add
one, write its function here under ``@metric(...)``; its name is what a table's YAML says. ``source`` is what it reads:

========  =============================================================================================================
runs      metrics.csv of finished runs
timing    timing.json, measured by an undisturbed run of its own; with a target, metrics.csv too
analysis  hessian.json of each run
declared  what the algorithm declares of itself; no runs
given     a fact of the configuration, such as a number of classes; no runs
========  =============================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable

from flatfed.analysis import records
from flatfed.tables.quantity import Metric, Reading

#: Bytes of one parameter as it is sent (float32).
PARAMETER = 4


METRICS: dict[str, Metric] = {}

#: Columns of metrics.csv that a run has where its protocol evaluates more than test images -> the set they are of.
SETS = {
    "train_accuracy": "train",
    **{f"client_{part}_{what}": "clients" for part in ("train", "test") for what in ("accuracy", "std")},
    "node_train_accuracy": "nodes",
}

#: How a row is taken against its base row, seed by seed: name -> (function of ours and the base's, said in words).
RELATIVES: dict[str, tuple[Callable[[float, float], float], str]] = {
    "ratio": (lambda ours, base: ours / base, "divided by the base row's"),
    "speedup": (lambda ours, base: base / ours, "as the base row's divided by it"),
    "difference": (lambda ours, base: ours - base, "minus the base row's"),
}


def unit_of(name: str, relative: str | None = None) -> str:
    """Return the stored unit of metric ``name`` taken as ``relative``: a ratio has one of its own."""
    return "ratio" if relative in ("ratio", "speedup") else METRICS[name].unit


def metric(unit: str, words: str, *columns: str, source: str = "runs", **also):
    """Enter the decorated function into ``METRICS`` under its own name."""

    def enter(function):
        name = function.__name__
        METRICS[name] = Metric(function, unit, source, columns, words, **{"printed_as": name, **also})
        return function

    return enter


@metric("fraction", "Test accuracy", "test_accuracy", higher=True)
def test_accuracy(reading: Reading) -> float:
    """Test accuracy of the final round; with a window, the mean over the last evaluated rounds. Never the best."""
    return reading.final("test_accuracy")


@metric("fraction", "Train accuracy", "train_accuracy", higher=True)
def train_accuracy(reading: Reading) -> float:
    """Accuracy on all training images, as ``test_accuracy``."""
    return reading.final("train_accuracy")


@metric("fraction", "Generalization error", "train_accuracy", "test_accuracy", higher=False)
def generalization_error(reading: Reading) -> float:
    """Train accuracy minus test accuracy (DFedSAM, 5.2): computed, where the paper's own table errs five times."""
    return reading.final("train_accuracy") - reading.final("test_accuracy")


@metric(
    "fraction", "Train accuracy, mean over clients", "client_train_accuracy", higher=True, printed_as="train_accuracy"
)
def client_train_accuracy(reading: Reading) -> float:
    """Mean over clients of the accuracy on each one's own training images (FedSAM, Table 1, "Train")."""
    return reading.final("client_train_accuracy")


@metric("fraction", "Test accuracy, mean over clients", "client_test_accuracy", higher=True, printed_as="test_accuracy")
def client_test_accuracy(reading: Reading) -> float:
    """Mean over clients of the accuracy on test images drawn to each one's labels (FedSAM, Table 1, "Validation")."""
    return reading.final("client_test_accuracy")


@metric(
    "fraction",
    "Train accuracy of each node's own model on its own images, mean over nodes",
    "node_train_accuracy",
    higher=True,
    printed_as="train_accuracy",
)
def node_train_accuracy(reading: Reading) -> float:
    """Mean over nodes of the accuracy of each one's own model on its own training images (DFedSAM, Table 1, "Train").

    Of many models, where ``client_train_accuracy`` is of the server's one; each as it comes out of local training.
    """
    return reading.final("node_train_accuracy")


@metric(
    "fraction",
    "Train accuracy of the nodes' own models minus test accuracy of their mean",
    *("node_train_accuracy", "test_accuracy"),
    higher=False,
    printed_as="generalization_error",
)
def node_generalization_error(reading: Reading) -> float:
    """``node_train_accuracy`` minus ``test_accuracy``: two models are in it (DFedSAM, Table 1)."""
    return reading.final("node_train_accuracy") - reading.final("test_accuracy")


@metric("fraction", "Deviation of train accuracy over clients", "client_train_std", higher=False)
def train_client_std(reading: Reading) -> float:
    """Deviation over clients of ``client_train_accuracy`` (FedSAM, Table 1, "(std)" of "Train")."""
    return reading.final("client_train_std")


@metric("fraction", "Deviation of test accuracy over clients", "client_test_std", higher=False)
def test_client_std(reading: Reading) -> float:
    """Deviation over clients of ``client_test_accuracy`` (FedSAM, Table 1, "(std)" of "Validation")."""
    return reading.final("client_test_std")


@metric("squared_l2", "Consistency", "consistency", higher=False)
def consistency(reading: Reading) -> float:
    """Mean over active clients of ||w_i - w^{t+1}||^2 in the final round (FedSMOO, Table 2)."""
    return reading.final("consistency")


@metric("fraction", "Mean test accuracy", "test_accuracy", higher=True, several=True)
def mean_test_accuracy(reading: Reading) -> float:
    """``test_accuracy``, averaged over all settings of a dataset: several runs per seed (FedLESAM, Table 4)."""
    return reading.final("test_accuracy")


@metric("fraction", "Gain in mean test accuracy", "test_accuracy", higher=True, several=True, relative="difference")
def mean_test_accuracy_gain(reading: Reading) -> float:
    """``mean_test_accuracy`` minus that of the base method, seed by seed (FedLESAM, Table 4)."""
    return reading.final("test_accuracy")


@metric("rounds", "Rounds to target", "round", "test_accuracy", higher=False, needs_target=True)
def rounds_to_target(reading: Reading) -> float | None:
    """Communication rounds until the test accuracy, unsmoothed, first is at or above the target.

    FedSMOO, Table 6, "communication rounds required to achieve the target test accuracy". A first crossing, not a
    lasting one: the papers count rounds whose final accuracy lies below the target (FedSAM Table 1, FedRobust).
    """
    return reading.at_crossing("round")


TRAFFIC = ("test_accuracy", "download_bytes", "upload_bytes")


@metric("parameters", "Communication cost to target", *TRAFFIC, higher=False, needs_target=True)
def communication_cost(reading: Reading) -> float | None:
    """Parameters sent until the target is reached, counted as the papers do: twice the larger of the two directions.

    FedSMOO, Table 3: its costs are rounds times 1 or 2, where FedCM and MoFedSAM, two vectors down and one up, count 2.
    FedLESAM, Tables 5 and 9, "gigabytes of parameters": FedAvg's 156 at 723 rounds are its model, down and up, ten
    clients a round (to 4 %, unexplained). ``download_to_target`` and ``upload_to_target`` say what is really sent.
    """
    traffic = reading.at_crossing("download_bytes"), reading.at_crossing("upload_bytes")
    return None if None in traffic else 2 * max(traffic) / PARAMETER


@metric("bytes", "Bytes sent to clients until target", *TRAFFIC, higher=False, needs_target=True)
def download_to_target(reading: Reading) -> float | None:
    """Bytes that the active clients received until the target was reached."""
    return reading.at_crossing("download_bytes")


@metric("bytes", "Bytes sent by clients until target", *TRAFFIC, higher=False, needs_target=True)
def upload_to_target(reading: Reading) -> float | None:
    """Bytes that the active clients sent until the target was reached."""
    return reading.at_crossing("upload_bytes")


@metric("seconds", "Wall-clock time per round", higher=False, source="timing")
def seconds_per_round(reading: Reading) -> float:
    """Seconds of a round, training, loading and evaluation (FedSMOO, Table 7; FedLESAM, Table 8)."""
    return reading.timing["seconds_per_round"]


@metric(
    "seconds", "Wall-clock time to target", "round", "test_accuracy", higher=False, source="timing", needs_target=True
)
def total_seconds(reading: Reading) -> float | None:
    """``seconds_per_round`` times ``rounds_to_target`` (FedSMOO, Table 7: exactly this product)."""
    rounds = reading.at_crossing("round")
    return None if rounds is None else rounds * reading.timing["seconds_per_round"]


@metric(
    "seconds", "Computation time to target", "round", "test_accuracy", higher=False, source="timing", needs_target=True
)
def compute_time_to_target(reading: Reading) -> float | None:
    """Seconds of a round without evaluation times ``rounds_to_target`` (FedLESAM, Tables 5 and 9, in minutes)."""
    rounds = reading.at_crossing("round")
    return None if rounds is None else rounds * reading.timing["training_seconds_per_round"]


@metric("count", "Stored memory", higher=False, source="declared")
def stored_memory(reading: Reading) -> float:
    """Vectors of the model's size that a client holds (FedLESAM, Table 7)."""
    return reading.algorithm.stored_vectors()


@metric("count", "Communication per round", higher=False, source="declared")
def communication_per_round(reading: Reading) -> float:
    """Vectors of the model's size in the larger of an active client's two directions (FedLESAM, Table 7)."""
    return max(reading.algorithm.communication)


@metric("count", "Backpropagation per local step", higher=False, source="declared")
def backpropagation_per_local_step(reading: Reading) -> float:
    """Gradient evaluations of one local step (FedLESAM, Table 7)."""
    return reading.algorithm.gradients_per_step


@metric("number", "Top eigenvalue of the Hessian", higher=False, source="analysis")
def hessian_top_eigenvalue(reading: Reading) -> float:
    """Largest eigenvalue of the training loss's Hessian at the final model (FedSMOO, Table 2)."""
    return records.value(reading.analysis, "hessian_top_eigenvalue")


@metric("number", "Trace of the Hessian", higher=False, source="analysis")
def hessian_trace(reading: Reading) -> float:
    """Trace of the training loss's Hessian at the final model (FedSMOO, Table 2)."""
    return records.value(reading.analysis, "hessian_trace")


@metric("number", "Top eigenvalue of the Hessian scaled by the weights", higher=False, source="analysis")
def hessian_scaled_top_eigenvalue(reading: Reading) -> float:
    """Largest eigenvalue of diag(|w|) H diag(|w|), which no scaling of filters can change (no paper prints it)."""
    return records.value(reading.analysis, "hessian_scaled_top_eigenvalue")


@metric("number", "Trace of the Hessian scaled by the weights", higher=False, source="analysis")
def hessian_scaled_trace(reading: Reading) -> float:
    """Trace of diag(|w|) H diag(|w|), which no scaling of filters can change (no paper prints it)."""
    return records.value(reading.analysis, "hessian_scaled_trace")


def _given(reading: Reading) -> float | None:
    """Return a fact of the configuration (FedSAM, Table 3; FedSMOO, Tables 4 and 5; FedLESAM, Table 6)."""
    return reading.given


FACTS = {
    "count": (
        *("clients", "total_samples", "train_samples", "test_samples", "classes", "domains"),
        *("image_channels", "image_height", "image_width"),
    ),
    "number": (
        *("hp_local_learning_rate", "hp_sam_learning_rate", "hp_penalized_coefficient_beta"),
        *("hp_client_level_momentum_alpha", "hp_global_learning_rate", "hp_learning_rate_decay"),
    ),
}
for _unit, _names in FACTS.items():
    for _name in _names:
        _words = _name.removeprefix("hp_").replace("_", " ").capitalize()
        METRICS[_name] = Metric(_given, _unit, "given", (), _words, None, _name)
