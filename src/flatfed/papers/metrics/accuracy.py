"""Final accuracies and the consistency of clients."""

from __future__ import annotations

from flatfed.papers.quantity import Reading, enter


def _final(name: str, words: str, *columns: str, unit: str = "fraction", higher: bool = True, **about) -> None:
    """Enter the metric ``name``: the final value of the first column (default: ``name``) minus those of the others.

    The papers print client and node metrics without this prefix.
    """
    first, *subtracted = columns = columns or (name,)
    printed_as = name.removeprefix("client_").removeprefix("node_")

    def value(reading: Reading) -> float:
        return reading.final(first) - sum(map(reading.final, subtracted))

    enter(name, value, unit, words, *columns, higher=higher, printed_as=printed_as, **about)


# The final round or the mean over a window of rounds; never the best round.
_final("test_accuracy", "Test accuracy")

# On all training images.
_final("train_accuracy", "Train accuracy")

# DFedSAM, 5.2; the paper's table has five errors.
_final("generalization_error", "Generalization error", "train_accuracy", "test_accuracy", higher=False)

# FedSAM, Table 1: "Train", and "Validation" on test images drawn according to the client's labels.
_final("client_train_accuracy", "Train accuracy, mean over clients")
_final("client_test_accuracy", "Test accuracy, mean over clients")

# DFedSAM, Table 1, "Train": the node's model after local training.
_final("node_train_accuracy", "Train accuracy of each node's own model on its own images, mean over nodes")

# As in DisPFL's code, the basis of DFedSAM's experiments; DFedSAM's tables show test_accuracy.
_final("node_test_accuracy", "Test accuracy of each node's own model on test images of its own labels, mean over nodes")

# DFedSAM, Table 1: the nodes' models compared with their mean.
_final(
    *("node_generalization_error", "Train accuracy of the nodes' own models minus test accuracy of their mean"),
    *("node_train_accuracy", "test_accuracy"),
    higher=False,
)

# FedSAM, Table 1, "(std)".
_final("train_client_std", "Deviation of train accuracy over clients", "client_train_std", higher=False)
_final("test_client_std", "Deviation of test accuracy over clients", "client_test_std", higher=False)

# FedSMOO, Table 2: mean of ||w_i - w^{t+1}||^2 over active clients in the final round.
_final("consistency", "Consistency", unit="squared_l2", higher=False)

# FedLESAM, Table 4: mean over all settings of a dataset, so several runs per seed.
_final("mean_test_accuracy", "Mean test accuracy", "test_accuracy")
_final("mean_test_accuracy_gain", "Gain in mean test accuracy", "test_accuracy", relative="difference")
