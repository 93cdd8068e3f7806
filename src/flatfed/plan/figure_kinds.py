"""The kinds of figures, and the quantities on their axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Quantity:
    """A quantity on an axis; ``factor`` converts a stored value to the unit of the label.

    ``definition``: of a measure of the probes; braces hold keys of a protocol's ``probe:``.
    """

    label: str
    factor: float = 1.0
    definition: str = ""


#: Columns of metrics.csv.
COLUMNS = {
    "test_accuracy": Quantity("Test accuracy (%)", 100.0),
    "train_accuracy": Quantity("Train accuracy (%)", 100.0),
    "client_train_accuracy": Quantity("Clients' train accuracy (%)", 100.0),
    "client_test_accuracy": Quantity("Clients' test accuracy (%)", 100.0),
    "test_loss": Quantity("Test loss (nats)"),
    "train_loss": Quantity("Training loss (nats)"),
    "consistency": Quantity("Consistency $\\frac{1}{n}\\sum\\|w_i-w^{t+1}\\|^2$ (weights, squared)"),
}

#: Measures of the ``probes`` in run.json (:mod:`flatfed.engine.probe`).
PROBES = {
    "perturbation_drift": Quantity(
        "Perturbation drift (0 to 1)",
        definition="Perturbation drift: half the distance of two unit vectors, the client's perturbation and the "
        "gradient of F at the virtual global model, mean over all steps of the active clients. The virtual model "
        "averages all clients, with local steps of the inactive ones too. A step without a perturbation counts as 1/2.",
    ),
    "sharpness": Quantity(
        "Global sharpness (nats)",
        definition="Global sharpness: F(w + ρ g/‖g‖) - F(w), ρ = {rho:g}, g the gradient of F at w: one step of "
        "ascent, a lower bound of the largest rise within ρ.",
    ),
    "m_sharpness": Quantity(
        "Global m-sharpness (nats)",
        definition="Global m-sharpness: the mean of L(w + ρ g/‖g‖) - L(w) over batches of {m} images, L a batch's "
        "loss, g its gradient, ρ = {rho:g}.",
    ),
}

#: The loss in these definitions.
PROBED_LOSS = (
    "F: the mean loss on the same {images:,} training images of all clients (all, if fewer), drawn by the seed; images "
    "of several clients count several times."
)

#: Values of a loss surface.
LANDSCAPE = {"loss": Quantity("Loss (nats)"), "accuracy": Quantity("Accuracy (%)", 100.0)}


@dataclass(frozen=True)
class Kind:
    """A kind of figure.

    ``reads``: "runs" (metrics.csv and run.json), "partitions", or "analyses" of final models. ``quantities``: allowed
    values of ``metric``, ``default``: without it. ``one_seed``: it shows one seed instead of a mean.
    """

    reads: str
    quantities: Mapping[str, Quantity] = field(default_factory=dict)
    default: str | None = None
    one_seed: bool = False


KINDS = {
    "curves": Kind("runs", {**COLUMNS, **PROBES}, "test_accuracy"),
    "sweep": Kind("runs", COLUMNS, "test_accuracy"),
    "bars": Kind("runs", COLUMNS, "test_accuracy"),
    "partition": Kind("partitions", one_seed=True),
    "histogram": Kind("partitions", one_seed=True),
    "surface": Kind("analyses", LANDSCAPE, "loss", one_seed=True),
    "eigenvalues": Kind("analyses"),
}
