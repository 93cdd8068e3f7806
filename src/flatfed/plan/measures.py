"""Definitions of probe measures (:mod:`flatfed.engine.probe`) for the captions of figures."""

from __future__ import annotations

from flatfed.plan.catalog import Catalog
from flatfed.plan.figures import Figure

#: Measure -> its definition; braces hold keys of a protocol's ``probe:``.
DEFINITIONS = {
    "perturbation_drift": (
        "Perturbation drift: half the distance of two unit vectors, the client's perturbation and the gradient of F at "
        "the virtual global model, mean over all steps of the active clients. The virtual model averages all clients, "
        "with local steps of the inactive ones too. A step without a perturbation counts as 1/2."
    ),
    "sharpness": (
        "Global sharpness: F(w + ρ g/‖g‖) - F(w), ρ = {rho:g}, g the gradient of F at w: one step of ascent, a lower "
        "bound of the largest rise within ρ."
    ),
    "m_sharpness": (
        "Global m-sharpness: the mean of L(w + ρ g/‖g‖) - L(w) over batches of {m} images, L a batch's loss, g its "
        "gradient, ρ = {rho:g}."
    ),
}
F = (
    "F: the mean loss on the same {images:,} training images of all clients (all, if fewer), drawn by the seed; images "
    "of several clients count several times."
)


def defined(catalog: Catalog, scale: str, figure: Figure) -> list[str]:
    """Return the definitions of a figure's probe measures and of their loss."""
    probes = [
        (panel.metric, catalog.settings(scale, mark.protocol).probe)
        for panel in figure.panels
        for mark in panel.marks
        if panel.metric in DEFINITIONS
    ]
    definitions = [DEFINITIONS[metric].format(**vars(probe)) for metric, probe in probes]
    return list(dict.fromkeys([*definitions, *(F.format(**vars(probe)) for _, probe in probes)]))
