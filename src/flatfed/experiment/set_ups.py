"""One-line descriptions of the set-ups of a table or figure: data, clients, model and rounds.

``{name}`` is the placeholder for the number of images of a dataset, which is counted when the table or figure is built
(:mod:`flatfed.tables.image_counts`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from flatfed.experiment.catalog import Catalog
from flatfed.experiment.experiment import Experiment
from flatfed.experiment.model import DatasetSpec, Figure
from flatfed.runs import graphs

#: Keys of a protocol that do not change its trainings.
REMARKS = ("label", "unstated", "targets", "accuracy", "client_test_images")


#: Property of a partition or client sampling -> pattern of its number in a title.
NUMBERS = {
    "clients": r"\d+(?=( and \d+)* clients)",
    "active": r"\d+(?=% of)",
    "classes_per_client": r"(?<=c = )\d+|(?<=Pathological )\d+",
}


def setting(catalog: Catalog, scale: str, pairs: list[tuple[str, str]]) -> str:
    """Return one line on data, clients, model and rounds of (protocol, split)s.

    At preview scale, each set-up begins with the paper's datasets that it replaces, if there are several.
    """
    replaced: dict[str, dict[str, None]] = {}
    for protocol, split in pairs:
        parts = _set_up(catalog, scale, protocol, split, trained=True)
        replaced.setdefault(", ".join(parts.values()), {})[_dataset(catalog, "paper", protocol)] = None
    several = scale != "paper" and len({name for names in replaced.values() for name in names}) > 1
    return "; ".join(f"{' and '.join(names)}: {text}" if several else text for text, names in replaced.items())


def retitled(catalog: Catalog, scale: str, text: str, pairs: list[tuple[str, str]]) -> str:
    """Return :func:`on_data`, with the dataset and the number of clients unless the title names them.

    "Test accuracy on CIFAR-10 after 800 rounds" becomes "Test accuracy on digits after 20 rounds, 30 clients".
    """
    if scale == "paper" or not pairs:
        return text
    replaced = on_data(catalog, scale, text, pairs)
    data = _data(catalog, scale, pairs)
    named = " / ".join(data) in replaced
    clients = _from_to(catalog.deal(scale, *pair).partition["clients"] for pair in pairs)
    # With three or more datasets, the panels of a figure name them.
    unnamed = [" / ".join(data)] * (not named and len(data) < 3) + [f"{clients} clients"] * ("clients" not in replaced)
    return (", " if named else ": ").join(filter(None, [replaced, ", ".join(unnamed)]))


def on_data(catalog: Catalog, scale: str, text: str, pairs: list[tuple[str, str]]) -> str:
    """Return a paper's title of (protocol, split)s with the data, rounds, target and :data:`NUMBERS` of ``scale``.

    A number that differs between pairs remains.
    """
    if scale == "paper" or not pairs:
        return text
    replacements: dict[tuple[str, str], set[str]] = {}
    for pair in pairs:
        paper, scaled = (_numbers(catalog, at, *pair) for at in ("paper", scale))
        for key, number in paper.items():
            replacements.setdefault((key, number), set()).add(scaled[key])
    same = {key: min(numbers) for key, numbers in replacements.items() if len(numbers) == 1}
    for key, pattern in NUMBERS.items():
        text = re.sub(pattern, lambda match, key=key: same.get((key, match[0]), match[0]), text)
    text = re.sub(r"\d+(?= rounds)", _from_to(catalog.values(scale, protocol)["rounds"] for protocol, _ in pairs), text)
    text = re.sub(r"a test accuracy of \d+%", "the target test accuracy", text)
    labels = (re.escape(entry["label"]) for entry in catalog.datasets.values())
    dataset = "|".join(sorted(labels, key=len, reverse=True))
    return re.sub(f"({dataset})((, | and )({dataset}))*", " / ".join(_data(catalog, scale, pairs)), text)


def _data(catalog: Catalog, scale: str, pairs: list[tuple[str, str]]) -> list[str]:
    return list(dict.fromkeys(_dataset(catalog, scale, protocol) for protocol, _ in pairs))


def _from_to(numbers: Iterable[int]) -> str:
    """Return the least and the largest number, "30" or "14 to 20"."""
    distinct = set(numbers)
    return " to ".join(map(str, sorted({min(distinct), max(distinct)})))


def _numbers(catalog: Catalog, scale: str, protocol: str, split: str) -> dict[str, str]:
    """Return the properties in :data:`NUMBERS` of a split at a scale."""
    deal = catalog.deal(scale, protocol, split)
    active = f"{100 * deal.sampling['fraction']:g}"
    return {"active": active, **{key: str(deal.partition[key]) for key in NUMBERS if key in deal.partition}}


def in_brief(catalog: Catalog, scale: str, pairs: list[tuple[str, str]], trained: bool) -> str:
    """Return :func:`setting` for a figure's foot: the shared parts of all set-ups, then the values of other parts."""
    set_ups = [_set_up(catalog, scale, protocol, split, trained) for protocol, split in pairs]
    keys = dict.fromkeys(key for parts in set_ups for key in parts)
    values = {key: list(dict.fromkeys(parts.get(key, "") for parts in set_ups)) for key in keys}
    shared = ", ".join(texts[0] for texts in values.values() if len(texts) == 1)
    differing = (" / ".join(filter(None, texts)) for texts in values.values() if len(texts) > 1)
    return "; ".join(filter(None, [shared, *differing]))


def datasets(experiment: Experiment, scale: str, pairs: list[tuple[str, str]]) -> dict[str, DatasetSpec]:
    """Return name -> specification of the datasets of (protocol, split)s."""
    specs = {}
    for protocol, _ in pairs:
        name, entry = experiment.catalog.values(scale, protocol)["dataset"], experiment.catalog.dataset(scale, protocol)
        images = entry["train"] + entry["test"]
        specs[name] = DatasetSpec(experiment.places.manifest(name), images, entry["declared_images"], entry["shape"])
    return specs


def same_data(experiment: Experiment, scale: str, figure: Figure) -> str:
    """Return which datasets of the paper, and which panels, are identical at ``scale``, or "".

    Compares the protocols of the figure with all figures of its kind.
    """
    catalog = experiment.catalog
    protocols = {id_ for peer in experiment.figures.values() if peer.kind == figure.kind for id_ in peer.protocols}
    lines = []
    for protocol in figure.protocols:
        settled = _training_settings(catalog, scale, protocol)
        twins = [id_ for id_ in sorted(protocols) if _training_settings(catalog, scale, id_) == settled]
        names = dict.fromkeys(_dataset(catalog, "paper", id_) for id_ in twins)
        if len(names) < 2:
            continue
        same: dict[str, list[str]] = {}
        for panel in figure.panels:
            entries = [replace(e, protocol=twins[0]) if e.protocol in twins else e for e in panel.every(scale)]
            content = replace(panel, title="", entries=tuple(entries), levels=None)
            same.setdefault(repr(content), []).append(panel.title)
        repeated = [f"panels {' and '.join(titles)} are the same" for titles in same.values() if len(titles) > 1]
        lines.append(": ".join([f"{' and '.join(names)} are the same data here", *repeated]))
    return "; ".join(dict.fromkeys(lines))


def _training_settings(catalog: Catalog, scale: str, protocol: str) -> dict[str, Any]:
    """Return a protocol's settings of data and training at a scale. Evaluation sets are ignored."""
    values = catalog.values(scale, protocol)
    settled = {key: value for key, value in values.items() if key not in REMARKS}
    return {**settled, "evaluation": {key: value for key, value in values["evaluation"].items() if key != "sets"}}


def _dataset(catalog: Catalog, scale: str, protocol: str) -> str:
    return catalog.dataset(scale, protocol)["label"]


def _set_up(catalog: Catalog, scale: str, protocol: str, split: str, trained: bool) -> dict[str, str]:
    """Return subject -> text of a set-up; the partition alone if nothing is ``trained``."""
    values = catalog.values(scale, protocol)
    deal = catalog.deal(scale, protocol, split)
    clients, central = deal.partition["clients"], deal.partition["scheme"] == "central"
    parts = {
        "data": f"{_dataset(catalog, scale, protocol)} {{{values['dataset']}}}",
        "clients": "all at one place" if central else f"{clients} clients",
    }
    if not trained:
        return parts
    epochs = f"{values['local_epochs']} local epoch{'s' if values['local_epochs'] > 1 else ''}"
    parts |= {
        **({} if central else {"active": f"{100 * deal.sampling['fraction']:g}% active"}),
        "model": values["model"]["name"],
        "rounds": f"{values['rounds']} rounds of {'as many steps as a federated one' if central else epochs}",
        "batch": f"batch {values['batch_size']}",
    }
    if graph := deal.topology:
        from flatfed.engine.topology import Topology  # with numpy

        detail = f" of {graph.get('neighbours')}"
        if graph["graph"] in graphs.STATIC:
            detail = f" (spectral gap {Topology(graph, clients, 0).spectral_gap():.4f})"
        parts["graph"] = f"decentralised rows: {graph['graph']}{detail}"
    return parts
