"""Accuracies at the end of a run, and the consistency of clients: columns of metrics.csv."""

from __future__ import annotations

from flatfed.papers.quantity import Reading, enter


def _final(name: str, words: str, *columns: str, unit: str = "fraction", **about) -> None:
    """Enter the metric ``name``: the final value of the first column (default: ``name``) minus the others."""
    first, *subtracted = columns = columns or (name,)

    def value(reading: Reading) -> float:
        return reading.final(first) - sum(map(reading.final, subtracted))

    enter(name, value, unit, words, *columns, **about)


# The final round or, with a window, the mean over the last evaluated rounds; never the best round.
_final("test_accuracy", "Test accuracy", higher=True)

# On all training images.
_final("train_accuracy", "Train accuracy", higher=True)

# DFedSAM, 5.2: computed from its terms; the paper's table has five errors.
_final("generalization_error", "Generalization error", "train_accuracy", "test_accuracy", higher=False)

# Mean over clients of the accuracy on the client's training images (FedSAM, Table 1, "Train"), and on test images
# drawn according to the client's labels ("Validation").
_final("client_train_accuracy", "Train accuracy, mean over clients", higher=True, printed_as="train_accuracy")
_final("client_test_accuracy", "Test accuracy, mean over clients", higher=True, printed_as="test_accuracy")

# Mean over nodes of the accuracy of the node's model, after local training, on the node's training images (DFedSAM,
# Table 1, "Train"). In contrast, client_train_accuracy evaluates the server's model.
_final(
    *("node_train_accuracy", "Train accuracy of each node's own model on its own images, mean over nodes"),
    higher=True,
    printed_as="train_accuracy",
)

# As printed by DisPFL's code, the basis of DFedSAM's experiments; DFedSAM's tables show test_accuracy instead.
_final(
    *("node_test_accuracy", "Test accuracy of each node's own model on test images of its own labels, mean over nodes"),
    higher=True,
    printed_as="test_accuracy",
)

# Compares the nodes' models with their mean (DFedSAM, Table 1).
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

# Mean over all settings of a dataset, so several runs per seed; the gain over the base method is per seed (FedLESAM,
# Table 4).
_final("mean_test_accuracy", "Mean test accuracy", "test_accuracy", higher=True)
_final(
    *("mean_test_accuracy_gain", "Gain in mean test accuracy", "test_accuracy"), higher=True, relative="difference"
)
