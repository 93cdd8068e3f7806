"""Accuracies at the end of a run, and how far clients are apart: columns of metrics.csv."""

from __future__ import annotations

from flatfed.papers.quantity import Reading, metric


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
    "Test accuracy of each node's own model on test images of its own labels, mean over nodes",
    "node_test_accuracy",
    higher=True,
    printed_as="test_accuracy",
)
def node_test_accuracy(reading: Reading) -> float:
    """Mean over nodes of the accuracy of each one's own model on test images drawn to its labels.

    What DisPFL's code, on which DFedSAM's experiments are built, prints; DFedSAM's tables show ``test_accuracy`` here.
    """
    return reading.final("node_test_accuracy")


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
