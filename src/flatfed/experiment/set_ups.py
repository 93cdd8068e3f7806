"""What was really trained, in one line: data, clients, model and rounds of the set-ups of a table or figure.

The numbers of images are not known here: ``{name}`` stands for that of a dataset, which is counted where the table or
figure is made (:mod:`flatfed.tables.trained_on`).
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

#: Keys of a protocol at a scale that do not change what is trained.
REMARKS = ("label", "unstated", "targets", "accuracy", "client_test_images")


#: What a title may say of a deal -> where its number stands.
NUMBERS = {
    "clients": r"\d+(?=( and \d+)* clients)",
    "active": r"\d+(?=% of)",
    "classes_per_client": r"(?<=c = )\d+|(?<=Pathological )\d+",
}


def setting(catalog: Catalog, scale: str, pairs: list[tuple[str, str]]) -> str:
    """Return one line on data, clients, model and rounds of (protocol, split)s.

    At preview scale, the paper's data sets that each set-up stands for are named first where there are several.
    """
    stands_for: dict[str, dict[str, None]] = {}
    for protocol, split in pairs:
        parts = _set_up(catalog, scale, protocol, split, trained=True)
        stands_for.setdefault(", ".join(parts.values()), {})[_dataset(catalog, "paper", protocol)] = None
    several = scale != "paper" and len({name for names in stands_for.values() for name in names}) > 1
    return "; ".join(f"{' and '.join(names)}: {text}" if several else text for text, names in stands_for.items())


def retitled(catalog: Catalog, scale: str, text: str, pairs: list[tuple[str, str]]) -> str:
    """Return :func:`on_data`, with the training data and the number of clients where the title names neither.

    "Test accuracy on CIFAR-10 after 800 rounds" becomes "Test accuracy on digits after 20 rounds, 30 clients".
    """
    if scale == "paper" or not pairs:
        return text
    replaced = on_data(catalog, scale, text, pairs)
    data = _data(catalog, scale, pairs)
    named = " / ".join(data) in replaced
    clients = _from_to(catalog.deal(scale, *pair).partition["clients"] for pair in pairs)
    # The panels of a figure name each of three and more.
    unnamed = [" / ".join(data)] * (not named and len(data) < 3) + [f"{clients} clients"] * ("clients" not in replaced)
    return (", " if named else ": ").join(filter(None, [replaced, ", ".join(unnamed)]))


def on_data(catalog: Catalog, scale: str, text: str, pairs: list[tuple[str, str]]) -> str:
    """Return a paper's title of (protocol, split)s with ``scale``'s own data, rounds, target and :data:`NUMBERS`.

    A number that is not the same in all pairs stays.
    """
    if scale == "paper" or not pairs:
        return text
    here: dict[tuple[str, str], set[str]] = {}
    for pair in pairs:
        paper, own = (_numbers(catalog, each, *pair) for each in ("paper", scale))
        for key, number in paper.items():
            here.setdefault((key, number), set()).add(own[key])
    same = {key: min(numbers) for key, numbers in here.items() if len(numbers) == 1}
    for key, place in NUMBERS.items():
        text = re.sub(place, lambda found, key=key: same.get((key, found[0]), found[0]), text)
    text = re.sub(r"\d+(?= rounds)", _from_to(catalog.values(scale, protocol)["rounds"] for protocol, _ in pairs), text)
    text = re.sub(r"a test accuracy of \d+%", "the target test accuracy", text)
    labels = (re.escape(entry["label"]) for entry in catalog.datasets.values())
    dataset = "|".join(sorted(labels, key=len, reverse=True))
    return re.sub(f"({dataset})((, | and )({dataset}))*", " / ".join(_data(catalog, scale, pairs)), text)


def _data(catalog: Catalog, scale: str, pairs: list[tuple[str, str]]) -> list[str]:
    return list(dict.fromkeys(_dataset(catalog, scale, protocol) for protocol, _ in pairs))


def _from_to(numbers: Iterable[int]) -> str:
    """Return the least and the largest number, "30" or "14 to 20"."""
    found = set(numbers)
    return " to ".join(map(str, sorted({min(found), max(found)})))


def _numbers(catalog: Catalog, scale: str, protocol: str, split: str) -> dict[str, str]:
    """Return what :data:`NUMBERS` names of a deal at a scale."""
    deal = catalog.deal(scale, protocol, split)
    active = f"{100 * deal.sampling['fraction']:g}"
    return {"active": active, **{key: str(deal.partition[key]) for key in NUMBERS if key in deal.partition}}


def in_brief(catalog: Catalog, scale: str, pairs: list[tuple[str, str]], trained: bool) -> str:
    """Return :func:`setting` for a figure's foot: what all set-ups share, then the values of each part that differs."""
    found = [_set_up(catalog, scale, protocol, split, trained) for protocol, split in pairs]
    keys = dict.fromkeys(key for parts in found for key in parts)
    values = {key: list(dict.fromkeys(parts.get(key, "") for parts in found)) for key in keys}
    shared = ", ".join(each[0] for each in values.values() if len(each) == 1)
    differing = (" / ".join(filter(None, each)) for each in values.values() if len(each) > 1)
    return "; ".join(filter(None, [shared, *differing]))


def datasets(experiment: Experiment, scale: str, pairs: list[tuple[str, str]]) -> dict[str, DatasetSpec]:
    """Return by name where the datasets of (protocol, split)s are counted, and what is declared of them."""
    found = {}
    for protocol, _ in pairs:
        name, entry = experiment.catalog.values(scale, protocol)["dataset"], experiment.catalog.dataset(scale, protocol)
        images = entry["train"] + entry["test"]
        found[name] = DatasetSpec(experiment.places.manifest(name), images, entry["declared_images"], entry["shape"])
    return found


def same_data(experiment: Experiment, scale: str, found: Figure) -> str:
    """Say which data sets of the paper are the same at ``scale``, and which panels of a figure therefore; or "".

    Those of the figure itself, and of others of its kind, beside which it lies in the paper.
    """
    catalog = experiment.catalog
    beside = {one for other in experiment.figures.values() if other.kind == found.kind for one in other.protocols}
    said = []
    for protocol in found.protocols:
        settled = _settled(catalog, scale, protocol)
        twins = [one for one in sorted(beside) if _settled(catalog, scale, one) == settled]
        names = dict.fromkeys(_dataset(catalog, "paper", one) for one in twins)
        if len(names) < 2:
            continue
        same: dict[str, list[str]] = {}
        for panel in found.panels:
            entries = [replace(one, protocol=twins[0]) if one.protocol in twins else one for one in panel.every(scale)]
            content = replace(panel, title="", entries=tuple(entries), levels=None)
            same.setdefault(repr(content), []).append(panel.title)
        repeated = [f"panels {' and '.join(alike)} are the same" for alike in same.values() if len(alike) > 1]
        said.append(": ".join([f"{' and '.join(names)} are the same data here", *repeated]))
    return "; ".join(dict.fromkeys(said))


def _settled(catalog: Catalog, scale: str, protocol: str) -> dict[str, Any]:
    """Return what a protocol settles at a scale of data and training; what is measured of them is nothing to them."""
    values = catalog.values(scale, protocol)
    settled = {key: value for key, value in values.items() if key not in REMARKS}
    return {**settled, "evaluation": {key: value for key, value in values["evaluation"].items() if key != "sets"}}


def _dataset(catalog: Catalog, scale: str, protocol: str) -> str:
    return catalog.dataset(scale, protocol)["label"]


def _set_up(catalog: Catalog, scale: str, protocol: str, split: str, trained: bool) -> dict[str, str]:
    """Return what there is to say of a set-up, by what it is about; of its deal alone where nothing is ``trained``."""
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

        of = f" of {graph.get('neighbours')}"
        if graph["graph"] in graphs.STATIC:
            of = f" (spectral gap {Topology(graph, clients, 0).spectral_gap():.4f})"
        parts["graph"] = f"decentralised rows: {graph['graph']}{of}"
    return parts
