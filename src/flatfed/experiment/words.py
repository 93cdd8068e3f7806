"""The sentences that go with a table or figure: what was really trained, and what the paper leaves open."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from flatfed import algorithms as registry
from flatfed.experiment import settings
from flatfed.experiment.model import Column, Table

if TYPE_CHECKING:
    from flatfed.experiment.experiment import Experiment


def setting(experiment: Experiment, scale: str, pairs: list[tuple[str, str]], trained: bool = True) -> str:
    """Return one line on data, clients and, where something is ``trained``, model and rounds of (protocol, split)s."""
    said: dict[str, None] = {}
    for protocol, split in pairs:
        values = experiment.catalog.protocols[protocol].scales[scale]
        dataset = experiment.catalog.datasets[values["dataset"]]
        deal = experiment.partition_spec(scale, protocol, split, 1)
        size = "x".join(str(side) for side in dataset["shape"][1:])
        count = dataset["train"] + dataset["test"]
        parts = [f"{dataset['label']} ({count:,} images of {size})", f"{deal['clients']} clients"]
        if trained:
            fraction = experiment.sampling(scale, protocol, split)["fraction"]
            epochs = f"{values['local_epochs']} local epoch{'s' if values['local_epochs'] > 1 else ''}"
            parts += [
                f"{100 * fraction:g}% active",
                values["model"]["name"],
                f"{values['rounds']} rounds of {epochs}, batch {values['batch_size']}",
            ]
        said[", ".join(parts)] = None
    return "; ".join(said)


def notes(experiment: Experiment, scale: str, table: Table, columns: list[Column]) -> list[str]:
    """Return the lines under a table: its own, why nothing is printed, and what the paper leaves open (paper scale)."""
    lines = list(table.settings.get("notes", []))
    if table.reference is None:
        lines.append(f"Nothing printed to compare with: {table.settings['reason']}.")
    if scale == "paper":
        chosen: dict[str, None] = {}
        for protocol in dict.fromkeys(column.protocol for column in columns):
            values = experiment.catalog.protocols[protocol].scales[scale]
            chosen |= {f"{key.replace('_', ' ')}: {text}": None for key, text in values["unstated"].items()}
        lines += [f"Not stated by the paper, {line}." for line in chosen]
        lines += choices(experiment, scale, table.rows, [column.protocol for column in columns])
    return lines


def choices(experiment: Experiment, scale: str, rows: Iterable[str], protocols: Iterable[str]) -> list[str]:
    """Return a line for every choice between a paper and its official code that the ``rows`` make in ``protocols``."""
    made: dict[tuple[str, str], dict[str, None]] = {}
    for protocol in dict.fromkeys(protocols):
        values = experiment.catalog.protocols[protocol].scales[scale]
        for row in rows:
            entry = experiment.catalog.algorithms[row]
            _, parameters = settings.of_algorithm(values, row, entry)
            for name, declared in registry.load(row.partition("~")[0]).parameters().items():
                if isinstance(declared, registry.Choice) and declared.parts:
                    followed = "the paper" if parameters[name] == "paper" else "the official code"
                    reason = f" ({declared.reason})" if declared.reason and parameters[name] == declared.default else ""
                    line = (name, f"{followed} is followed in {name}, {declared.doc}{reason}.")
                    made.setdefault(line, {})[entry["label"]] = None
    return [f"{', '.join(labels)}: {text}" for (_, text), labels in made.items()]
