"""Final accuracies and the consistency of clients."""

from __future__ import annotations

from flatfed.plan.quantity import Reading, metric, register


def _register_final(name: str, words: str, *columns: str, unit: str = "fraction", higher: bool = True, **options):
    """Register the metric ``name``: the final value of the first column (default: ``name``) minus those of the others.

    The papers print client and node metrics without prefix.
    """
    first, *subtracted = columns = columns or (name,)
    printed_as = name.removeprefix("client_").removeprefix("node_")

    def value(reading: Reading) -> float:
        return reading.final(first) - sum(map(reading.final, subtracted))

    register(name, value, unit, words, *columns, higher=higher, printed_as=printed_as, **options)


# The mean over final rounds, never the best.
_register_final("test_accuracy", "Test accuracy")


@metric("fraction", "Test accuracy of the last round", "test_accuracy", higher=True, printed_as="test_accuracy")
def last_test_accuracy(reading: Reading) -> float:
    """Test accuracy of the last round, whatever the protocol's ``evaluation.window``."""
    return reading.history["test_accuracy"][-1]


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
