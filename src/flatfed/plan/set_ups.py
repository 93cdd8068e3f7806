"""One-line descriptions of the set-ups of a table or figure: data, clients, model and rounds.

:mod:`flatfed.tables.image_counts` replaces ``{name}`` by the number of images of dataset ``name``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from flatfed.plan.catalog import Catalog
from flatfed.plan.experiment import Experiment
from flatfed.plan.figures import Figure
from flatfed.plan.tables import Table
from flatfed.runs import graphs


@dataclass(frozen=True)
class DatasetSpec:
    """A dataset whose images :mod:`flatfed.tables.image_counts` counts.

    ``manifest``: its dataset.json, or None. ``images``: their number on this machine; ``of``: in the published dataset.
    ``shape``: (channels, height, width).
    """

    manifest: str | None
    images: int
    of: int
    shape: Sequence[int]


def setting(catalog: Catalog, scale: str, pairs: list[tuple[str, str]], trained: bool = True) -> str:
    """Return one line on (protocol, split)s; that of a preview names the protocols if there are several.

    Without model and rounds if nothing trains.
    """
    protocols: dict[str, dict[str, None]] = {}
    for protocol, split in pairs:
        parts = _set_up(catalog, scale, protocol, split, trained)
        protocols.setdefault(", ".join(parts.values()), {})[protocol] = None
    several = scale != "paper" and len({protocol for protocol, _ in pairs}) > 1
    return "; ".join(f"{' and '.join(names)}: {text}" if several else text for text, names in protocols.items())


def prefix(catalog: Catalog, scale: str, pairs: list[tuple[str, str]], trained: bool = True) -> str:
    """Return the text before a title: "Preview on digits, 14 to 20 rounds: "; "" at paper scale.

    Without rounds if nothing trains.
    """
    if scale == "paper":
        return ""
    data = dict.fromkeys(catalog.dataset(scale, protocol).label for protocol, _ in pairs)
    rounds = {catalog.settings(scale, protocol).rounds for protocol, _ in pairs if trained}
    ends = " to ".join(map(str, sorted({min(rounds), max(rounds)}))) if rounds else ""
    parts = ["Preview" + " on " * bool(data) + " / ".join(data), ends and f"{ends} rounds"]
    return f"{', '.join(filter(None, parts))}: "


def title(
    catalog: Catalog, scale: str, shown: Table | Figure, pairs: list[tuple[str, str]], trained: bool = True
) -> str:
    """Return the title of a table or figure; that of a preview names the printed one: "Table 1 of FedSMOO"."""
    document, name = shown.document, re.match(r"[a-z]+(?=\d{4}_)", shown.id)
    if scale == "paper":
        return document.title
    printed, place = document.paper or document.title, re.search(r"(Table|Figure) .*", document.paper or "")
    if place and name and name[0] in catalog.algorithms:
        printed = f"{place[0]} of {catalog.label(name[0])}"
    return prefix(catalog, scale, pairs, trained) + printed


def datasets(experiment: Experiment, scale: str, pairs: list[tuple[str, str]]) -> dict[str, DatasetSpec]:
    """Return name -> specification of the datasets."""
    specs = {}
    for protocol, _ in pairs:
        name, entry = experiment.catalog.settings(scale, protocol).dataset, experiment.catalog.dataset(scale, protocol)
        images = entry.train + entry.test
        specs[name] = DatasetSpec(experiment.paths.manifest(name), images, entry.declared_images, entry.shape)
    return specs


def _set_up(catalog: Catalog, scale: str, protocol: str, split: str, trained: bool) -> dict[str, str]:
    settings = catalog.settings(scale, protocol)
    resolved_split = catalog.split_settings(scale, protocol, split)
    clients, central = resolved_split.partition.clients, resolved_split.partition.scheme == "central"
    parts = {
        "data": f"{catalog.dataset(scale, protocol).label} {{{settings.dataset}}}",
        "clients": "all at one place" if central else f"{clients} clients",
    }
    if not trained:
        return parts
    count, unit = settings.local_steps or settings.local_epochs, "step" if settings.local_steps else "epoch"
    length = f"{count} local {unit}{'s' if count > 1 else ''}"
    parts |= {
        **({} if central else {"active": f"{100 * resolved_split.sampling.fraction:g}% active"}),
        "model": settings.model.name,
        "rounds": f"{settings.rounds} rounds of {'as many steps as a federated one' if central else length}",
        "batch": f"batch {settings.batch_size}",
    }
    if topology := resolved_split.topology:
        from flatfed.engine.topology import Topology  # with numpy

        detail = f" of {topology.neighbours}"
        if topology.graph in graphs.STATIC:
            detail = f" (spectral gap {Topology(topology, clients, 0).spectral_gap():.4f})"
        parts["graph"] = f"decentralised rows: {topology.graph}{detail}"
    return parts
