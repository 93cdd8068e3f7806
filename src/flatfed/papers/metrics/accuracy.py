"""Accuracies at the end of a run, and how far clients are apart: columns of metrics.csv."""

from __future__ import annotations

from flatfed.papers.quantity import Reading, enter


def _final(name: str, words: str, *columns: str, unit: str = "fraction", **also) -> None:
    """Enter the metric ``name``: its column at the end of a run, called like it, or the first less the second."""
    first, *others = columns = columns or (name,)

    def value(reading: Reading) -> float:
        return reading.final(first) - sum(map(reading.final, others))

    enter(name, value, unit, words, *columns, **also)


# Of the final round; with a window, the mean over the last evaluated rounds. Never the best.
_final("test_accuracy", "Test accuracy", higher=True)

# On all training images.
_final("train_accuracy", "Train accuracy", higher=True)

# DFedSAM, 5.2: computed, where the paper's own table errs five times.
_final("generalization_error", "Generalization error", "train_accuracy", "test_accuracy", higher=False)

# Mean over clients of the accuracy on each one's own training images (FedSAM, Table 1, "Train"), and on test images
# drawn to each one's labels ("Validation").
_final("client_train_accuracy", "Train accuracy, mean over clients", higher=True, printed_as="train_accuracy")
_final("client_test_accuracy", "Test accuracy, mean over clients", higher=True, printed_as="test_accuracy")

# Mean over nodes of the accuracy of each one's own model on its own training images (DFedSAM, Table 1, "Train"). Of
# many models, where client_train_accuracy is of the server's one; each as it comes out of local training.
_final(
    *("node_train_accuracy", "Train accuracy of each node's own model on its own images, mean over nodes"),
    higher=True,
    printed_as="train_accuracy",
)

# What DisPFL's code, on which DFedSAM's experiments are built, prints; DFedSAM's tables show test_accuracy here.
_final(
    *("node_test_accuracy", "Test accuracy of each node's own model on test images of its own labels, mean over nodes"),
    higher=True,
    printed_as="test_accuracy",
)

# Two models are in it (DFedSAM, Table 1).
_final(
    *("node_generalization_error", "Train accuracy of the nodes' own models minus test accuracy of their mean"),
    *("node_train_accuracy", "test_accuracy"),
    higher=False,
    printed_as="generalization_error",
)

# Deviations over clients (FedSAM, Table 1, "(std)" of "Train" and of "Validation").
_final("train_client_std", "Deviation of train accuracy over clients", "client_train_std", higher=False)
_final("test_client_std", "Deviation of test accuracy over clients", "client_test_std", higher=False)

# Mean over active clients of ||w_i - w^{t+1}||^2 in the final round (FedSMOO, Table 2).
_final("consistency", "Consistency", unit="squared_l2", higher=False)

# Averaged over all settings of a dataset: several runs per seed; the gain over the base method, seed by seed (FedLESAM,
# Table 4).
_final("mean_test_accuracy", "Mean test accuracy", "test_accuracy", higher=True)
_final(
    *("mean_test_accuracy_gain", "Gain in mean test accuracy", "test_accuracy"), higher=True, relative="difference"
)
