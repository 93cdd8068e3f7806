"""Definitions of the measures of a run's probes (:mod:`flatfed.engine.probe`) for captions of figures."""

from __future__ import annotations

from flatfed.experiment.catalog import Catalog
from flatfed.experiment.model import Figure

#: Measure -> its definition; braces hold keys of a protocol's ``probe:``.
DEFINITIONS = {
    "perturbation_drift": (
        "Perturbation drift: half the distance of two unit vectors, the client's perturbation and the gradient of F at "
        "the virtual global model, mean over the E steps of the K active clients (1/(2KE) times the sum). The virtual "
        "model averages all N clients: those that are not active are stepped for it as if they were. A step without a "
        "perturbation is at distance 1 and counts as 1/2."
    ),
    "sharpness": (
        "Global sharpness: F(w + ρ g/‖g‖) - F(w) with ρ = {rho:g} and g the gradient of F at w: one step of ascent, a "
        "lower bound of the largest rise within ρ."
    ),
    "m_sharpness": (
        "Global m-sharpness: the mean over batches of {m} images of L(w + ρ g/‖g‖) - L(w), L a batch's loss, g its "
        "gradient and ρ = {rho:g}: one step of ascent each, a lower bound of the largest rise within ρ."
    ),
}
F = (
    "F: the mean loss on {images:,} of all clients' training images (all, if fewer), drawn by the seed, those dealt "
    "twice counted twice: the same images in every line."
)


def defined(catalog: Catalog, scale: str, figure: Figure) -> list[str]:
    """Return a sentence for every probe measure that a figure shows, and for the loss of these measures."""
    probes = [
        (panel.metric, catalog.values(scale, entry.protocol)["probe"])
        for panel in figure.panels
        for entry in panel.entries
        if panel.metric in DEFINITIONS
    ]
    definitions = [DEFINITIONS[metric].format(**probe) for metric, probe in probes]
    return list(dict.fromkeys([*definitions, *(F.format(**probe) for _, probe in probes)]))
