"""The configuration as questions and answers: which runs a table needs, what a run is, where it lies."""

from __future__ import annotations

import copy
import os
from functools import cached_property
from pathlib import Path
from typing import Any

from flatfed import algorithms, models
from flatfed.errors import ConfigError
from flatfed.experiment import catalog as catalogs
from flatfed.experiment import (
    cell_specs,
    compatibility,
    deals,
    figure_specs,
    figures,
    known,
    scales,
    selection,
    settings,
    tables,
    tuning,
    words,
)
from flatfed.experiment.deals import Deal
from flatfed.experiment.known import Entries
from flatfed.experiment.model import Asked, CellSpec, Column, Figure, Run, Table, TableSpec
from flatfed.experiment.panels import FigureSpec
from flatfed.models import pretrained
from flatfed.papers import reference
from flatfed.papers.errata import Errata
from flatfed.runs.places import DEFAULT, Places, RunIds
from flatfed.strict_yaml import read

#: The largest seed, here and in the schemas.
LARGEST_SEED = 2**32 - 1


def load(root: str | Path, config: dict[str, Any] | None = None, places: Places = DEFAULT) -> Experiment:
    """Read ``root``/config; ``places`` are the folders that all paths begin with.

    ``config`` is the content of config.yaml as merged with the command line (None: the file alone). A mistake in an
    entry is raised by the questions that need the entry, and by :meth:`Experiment.check`.

    :raises ConfigError: a mistake in ``config`` or in a file that everything needs.
    """
    root = Path(root)
    # Read in any case: Snakemake, which merges it into ``config``, lets a key given twice pass.
    own = read(root / "config" / "config.yaml", selection.FILE)
    selection.check(own, selection.FILE)
    return Experiment(root, own if config is None else config, places)


class Experiment:
    """Everything config/ declares and config.yaml asks for. All answers are plain data; no torch."""

    def __init__(self, root: Path, config: dict[str, Any], places: Places):
        selection.check(config)
        self.root, self.config, self.places = root, config, places
        for key in ("algorithm_folders", "model_folders", "table_folders"):
            for folder in config.get(key, []):
                if not Path(folder).is_dir():
                    absent = f"{selection.WHERE}: {key}: there is no folder {folder!r} ({Path(folder).absolute()})"
                    raise ConfigError(f"{absent}; create it, or correct or remove this entry")
        #: Environment variables that hand the folders of the user's own files to jobs.
        self.environment: dict[str, str] = {}
        for files in (algorithms.FILES, models.FILES):
            if folders := files.look_in(config.get(files.setting, []), f"{selection.WHERE}: {files.setting}"):
                self.environment[files.variable] = os.pathsep.join(folders)
        self.scale: str = config["scale"]
        self.catalog = catalogs.load(root, config.get("table_folders", []), config.get("data", {}), selection.WHERE)
        self.references = reference.read_all(root)
        for name, protocol in list(self.catalog.protocols.items()):
            with self.catalog.protocols.refusing(name):
                tuning.check(protocol, self.catalog)
        self.tables: Entries[Table] = self.catalog.tables.resolved(
            lambda name, declared: tables.table(name, declared, self.catalog, self.references)
        )
        self.figures: Entries[Figure] = self.catalog.figures.resolved(
            lambda name, declared: figures.figure(name, declared, self.catalog)
        )
        #: Images of the datasets as they are declared, which all tables fit.
        self.declared_images = {name: entry["train"] + entry["test"] for name, entry in self.catalog.datasets.items()}
        # From here on those of this machine: a part of a dataset need only do for what is asked for.
        self.catalog = selection.counted(config, self.catalog)
        self.tune: bool = config.get("tune", False)
        if config.get("seeds_together") and len(config.get("seeds", [])) < 2:
            raise ConfigError(f"{selection.WHERE}: seeds_together: true needs two `seeds` or more, such as [1, 2]")
        self.asked = Asked(selection.tables(config, self.tables), selection.figures(config, self.figures))
        self.everything = Asked([(name, None) for name in self.tables], list(self.figures))
        self._runs: dict[tuple[str, str, str, str, int], Run] = {}
        self._choices: dict[str, dict[str, float]] = {}

    @cached_property
    def errata(self) -> Errata:
        """The papers' contradictions: config/errata.yaml."""
        return Errata(self.root)

    def check(self) -> None:
        """Raise a ConfigError with all mistakes in the files, one line per file and key."""
        of = self.catalog
        entries = (of.datasets, of.splits, of.algorithms, of.protocols, self.tables, self.figures)
        messages = [message for each in entries for message in each.refused.values()]
        if first := {tuple(message.split(": ")[:2]): message for message in reversed(messages)}:
            raise ConfigError("\n".join(reversed(first.values())))

    def selected(self, scale: str | None = None) -> Asked:
        """Return what config.yaml asks for and there is at ``scale``."""
        return scales.there(self, scale or self.scale, self.asked)

    def left_out(self, scale: str | None = None) -> list[str]:
        """Return a line for each table and figure that config.yaml asks for and that there is not at ``scale``."""
        return scales.left_out(self, scale or self.scale, self.asked)

    def dataset_spec(self, name: str) -> dict[str, Any]:
        """Return what makes resources/<name>: name, classes, shape, numbers of images, source and any domains.

        :raises ConfigError: there is no such dataset.
        """
        dataset = known.look_up("dataset", name, self.catalog.datasets, "resources")
        kept = {key: dataset[key] for key in ("classes", "shape", "train", "test", "domains") if key in dataset}
        return {"name": name, **kept, "source": self.catalog.sources[name]}

    def weights_name(self, name: str) -> str:
        """Return ``name``, that of pre-trained weights; ConfigError if there are none of that name."""
        known.check("weights", name, pretrained.PUBLISHED, str(Path(self.places.weights(name)).parent))
        return name

    def dataset_of(self, scale: str, protocol: str) -> str:
        """Return the name of the dataset that ``protocol`` uses at ``scale``."""
        return self.values(scale, protocol)["dataset"]

    def partition_spec(self, scale: str, protocol: str, split: str, seed: int) -> dict[str, Any]:
        """Return what makes a partition; labelled variants of a protocol share the partitions of the plain one."""
        if not 1 <= seed <= LARGEST_SEED:
            raise ConfigError(f"results: seed {seed} is not allowed; 1 to {LARGEST_SEED} is wanted")
        self.values(scale, protocol, f"partitions/{protocol}/{split}/seed{seed}.npz")
        return {"seed": seed, **self.deal(scale, protocol, split).partition}

    def deal(self, scale: str, protocol: str, split: str) -> Deal:
        """Return how ``split`` deals the data, and who takes part; ConfigError for one that does not fit."""
        self.values(scale, protocol)
        known.check("split", split, self.catalog.splits, "config/splits.yaml")
        found = self.catalog.protocols[protocol]
        compatibility.check(found, split, self.catalog, f"{protocol}/{split}")
        return deals.of_split(split, found, scale, self.catalog)

    def run(self, scale: str, protocol: str, split: str, algorithm: str, seed: int) -> Run:
        """Return the run of these ids; ConfigError for one that does not exist, or a split that does not fit."""
        key = (scale, protocol, split, algorithm, seed)
        if key not in self._runs:
            name = f"{protocol}/{split}/{algorithm}"
            self.values(scale, protocol, f"runs/{name}/seed{seed}/run.json")
            known.check_algorithm(algorithm, self.catalog.algorithms, "config/algorithms.yaml")
            self.partition_spec(scale, protocol, split, seed)
            compatibility.check_pair(protocol, split, algorithm, self.catalog, name)
            chosen = tuning.chosen(self, *key[:-1]) if self.tune else {}
            self._runs[key] = self.resolved(*key, chosen)
        return self._runs[key]

    def runs_asked_for(self) -> list[tuple[str, str, str, str, int]]:
        """Return scale, protocol, split, algorithm and seed of all runs that were asked for so far."""
        return list(self._runs)

    def untuned(self) -> Experiment:
        """Return this experiment as if no choice were made, with no run asked for."""
        plain = copy.copy(self)
        plain.tune, plain._runs = False, {}
        return plain

    def choice(self, found: tuning.Search) -> dict[str, float]:
        """Return the values that a search chose; ConfigError where that is not recorded, or of another search."""
        place = found.folder(self.places)
        if place not in self._choices:
            self._choices[place] = tuning.choice(self, found)
        return self._choices[place]

    def resolved(
        self, scale: str, protocol: str, split: str, algorithm: str, seed: int, chosen: dict[str, float]
    ) -> Run:
        """Return the run of these ids, which exists, with the ``chosen`` values in place of the protocol's."""
        values = self.values(scale, protocol)
        deal = self.deal(scale, protocol, split)
        training, parameters = settings.of_algorithm(values, algorithm, self.catalog.algorithms[algorithm], chosen)
        length = {}
        if "steps_of" in self.catalog.splits[split]:  # a round is as long as one of the split that it is measured by
            federated = self.deal(scale, protocol, self.catalog.splits[split]["steps_of"])
            length = {"local_steps": federated.steps(training["batch_size"], training["local_epochs"])}
        dataset, model = self.catalog.datasets[values["dataset"]], values["model"]
        imitated = training["precision"] == "bfloat16" and values.get("emulate_bfloat16")
        description = {
            "format": 1,
            **{"scale": scale, "protocol": protocol, "split": split, "algorithm": algorithm, "seed": seed},
            "dataset": {
                "name": values["dataset"],
                **{key: dataset[key] for key in ("classes", "shape", "mean", "std")},
            },
            "partition": deal.partition,
            "sampling": deal.sampling,
            **({"topology": deal.topology} if deal.topology else {}),
            **length,
            "model": {
                "name": model["name"],
                "options": models.check_options(model["name"], model.get("options", {}), protocol),
                **({"weights": model["weights"]} if "weights" in model else {}),
            },
            **training,
            "update": {"name": algorithm.partition("~")[0], "params": parameters},
            "evaluation": {key: values["evaluation"][key] for key in ("every", "sets", "batch_size")},
            **({"probe": values["probe"]} if "probe" in values else {}),
            "executor": values["executor"],
            **({"emulate_bfloat16": True} if imitated else {}),
        }
        ids, places = (scale, protocol, split, algorithm, seed), self.places
        folder, partition = places.run(RunIds(*ids)), places.partition(scale, protocol, split, seed)
        weights = places.weights(model["weights"]) if "weights" in model else None
        return Run(*ids, folder, values["dataset"], partition, description, weights, places)

    def hyperparameters(self, scale: str, protocol: str, row: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return (training settings, parameters) of an algorithm or variant in ``protocol``, before any tuning."""
        return settings.of_algorithm(self.values(scale, protocol), row, self.catalog.algorithms[row])

    def label(self, row: str) -> str:
        """Return what an algorithm or variant is called in tables and figures."""
        return self.catalog.algorithms[row]["label"]

    def seeds(self, scale: str, protocol: str, own: dict[str, list[int]] | list[int] | None = None) -> list[int]:
        """Return the seeds of a table or figure: config.yaml's, else its ``own`` (by scale), else the protocol's."""
        values = self.values(scale, protocol)
        return self.config.get("seeds") or (own.get(scale) if isinstance(own, dict) else own) or values["seeds"]

    def table_runs(self, scale: str, table: str, columns: list[str] | None = None) -> list[Run]:
        """Return the runs of a table, or of some of its columns, each once."""
        return list({run.path: run for cell in self.cells(scale, table, columns) for run in cell.runs}.values())

    def cells(self, scale: str, table: str, columns: list[str] | None = None) -> list[CellSpec]:
        """Return the specifications of the cells of a table, or of some of its columns, row by row."""
        found, chosen = self._columns(scale, table, columns)
        return [cell_specs.cell(self, scale, found, column, row) for row in found.entries.values() for column in chosen]

    def cell(self, scale: str, table: str, column: str, row: str) -> CellSpec:
        """Return the specification of a cell.

        :raises ConfigError: no such scale, table, column or row.
        """
        found = self._table(table)
        place = f"table {table}"
        col = known.look_up("column", column, found.columns, place)
        scales.refuse(self, scale, scales.of_table(found, [column]), f"cells/{table}/{column}/{row}.json")
        return cell_specs.cell(self, scale, found, col, known.look_up("row", row, found.entries, place))

    def table_spec(self, scale: str, table: str, columns: list[str] | None = None) -> TableSpec:
        """Return the layout of a table: rows, columns, titles and notes."""
        return words.table(self, scale, *self._columns(scale, table, columns))

    def figure(self, scale: str, figure: str) -> FigureSpec:
        """Return the contents of a figure; ConfigError if there is none."""
        found = known.look_up("figure", figure, self.figures, "config/figures")
        scales.refuse(self, scale, found.protocols, f"figures/{figure}.png")
        return figure_specs.specification(self, scale, found)

    def _columns(self, scale: str, table: str, columns: list[str] | None) -> tuple[Table, list[Column]]:
        found = self._table(table)
        chosen = [
            known.look_up("column", column, found.columns, f"table {table}") for column in columns or found.columns
        ]
        scales.refuse_table(self, scale, table, columns)
        return found, chosen

    def _table(self, table: str) -> Table:
        return known.look_up("table", table, self.tables, "config/tables")

    def values(self, scale: str, protocol: str, target: str = "") -> dict[str, Any]:
        """Return all settings of ``protocol`` at ``scale``; ConfigError if either does not exist, for ``target``."""
        found = known.look_up("protocol", protocol, self.catalog.protocols, "config/protocols")
        scales.refuse(self, scale, [protocol], target or f"runs/{protocol}")
        return known.look_up("scale", scale, found.scales, "results")
