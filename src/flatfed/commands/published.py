"""``flatfed published``: tables, curves and claims made again from the metrics and records of published runs."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flatfed import experiment, forms
from flatfed.commands import arguments, configuration
from flatfed.commands.verify import lines
from flatfed.errors import DataError
from flatfed.experiment import Experiment, Run, figures, scales
from flatfed.files import check_place
from flatfed.runs import description, identity
from flatfed.runs import record as records
from flatfed.runs.places import DEFAULT, PublishedPlaces, RunIds, without_label
from flatfed.runs.record import RunRecord
from flatfed.specs import cell as cell_files
from flatfed.specs.cell import Sources
from flatfed.specs.table import TableSpec
from flatfed.tables import cells, verification

DETAIL = """\
Reads a folder of runs as they are published, metrics.csv and run.json of each, in either of the layouts
runs/SPLIT/ALGORITHM/seedK and runs/PROTOCOL/SPLIT/ALGORITHM/seedK. Nothing else is
needed: no data, no partitions, no models, no Snakemake, no torch. Every record is held against the
description that the configuration has of its run, and against its files where it has sums of them; all must
have been trained on the same data and partitions. Writes the tables as .md, .csv, .tex and .html and the
figures as .png and .pdf, and prints what `verify --claims` prints. Seeds are those that are there."""
EXAMPLE = "python -m flatfed published results/published/cifar10-cnn --table cifar10_cnn --out again"


def add(sub: argparse.ArgumentParser) -> None:
    """Add what the sub-command takes."""
    sub.add_argument("folder", type=Path, metavar="FOLDER", help="folder of published runs")
    each = "(default: all whose runs are all there; may be given several times)"
    sub.add_argument("--table", action="append", default=[], metavar="TABLE", help=f"table to make {each}")
    sub.add_argument("--figure", action="append", default=[], metavar="FIGURE", help=f"figure to draw {each}")
    arguments.add_path(sub, "--out", "DIR", "folder to write")
    arguments.add_config(sub)


#: What the description of a published run cannot lack.
IDS = {key: description.FORM[key] for key in ("scale", "protocol", "split", "algorithm", "seed", "dataset")}


@dataclass(frozen=True)
class PublishedRuns:
    """Published runs of one ``scale`` below ``path``: their records, by folder; ``places`` knows these folders."""

    path: Path
    scale: str
    records: Mapping[str, RunRecord]
    places: PublishedPlaces

    @property
    def protocols(self) -> set[str]:
        """The protocols that the runs are of."""
        return {record.description["protocol"] for record in self.records.values()}

    @property
    def summary(self) -> str:
        """How many runs there are, of which protocols and scale."""
        return f"its {len(self.records)} runs are of {', '.join(sorted(self.protocols))}, {self.scale} scale"


def run(options: argparse.Namespace) -> None:
    """Make what the command line asks for.

    :raises ConfigError: there is no such table or figure.
    :raises DataError: there are no runs, one is damaged, not the one that the configuration describes or trained on
        other data than the others, or a figure reads what is not published.
    """
    check_place(options.out, folder=True)
    runs = read(options.folder)
    described = described_for(runs, options.config)
    tables = options.table or [name for name in described.tables if is_table_complete(described, runs, name)]
    drawn = options.figure or [name for name in described.figures if _is_figure_complete(described, runs, name)]
    if not tables and not drawn:
        raise DataError(
            f"{runs.path}: {len(runs.records)} runs, and no table or figure of which every run is there; "
            "--table or --figure makes one from those that are"
        )
    for name in tables:
        make_table(described, runs, name, options.out)
    for name in drawn:
        make_figure(described, runs, name, options.out)
    print(f"{options.out}: made from {len(runs.records)} runs: {', '.join([*tables, *drawn])}")


def described_for(runs: PublishedRuns, config: configuration.Parts) -> Experiment:
    """Return what the configuration describes, with the seeds and in the folders of the published ``runs``."""
    seeds = sorted({record.description["seed"] for record in runs.records.values()})
    asked = {key: value for key, value in configuration.read(config).items() if key != "seeds_together"}
    return experiment.load(configuration.HOME, {**asked, "seeds": seeds}, runs.places)


def read(path: Path) -> PublishedRuns:
    """Return the published runs in the folder ``path``.

    :raises DataError: there are none, one is damaged or not where its record says, or two do not belong together.
    """
    files = [file for file in sorted(path.rglob(records.RECORD)) if not file.parent.name.startswith(".")]
    if not files:
        raise DataError(f"{path}: no {records.RECORD} in there, so no published run")
    return together(path, {file: read_record(file) for file in files})


def read_record(file: Path) -> RunRecord:
    """Return the record in ``file``; DataError where it is damaged, or not where its description says."""
    record = records.read(file)
    forms.check(record.description, IDS, f"{file}: description")
    identity.check_folder(file.parent, record)
    return record


def together(path: Path, published: Mapping[Path, RunRecord]) -> PublishedRuns:
    """Return the runs below ``path`` that are ``published``, given as file and record, as one object.

    :raises DataError: two are the same run, of two scales, or were trained on different data or partitions.
    """
    files: dict[str, Path] = {}
    first: dict[tuple[Any, ...], tuple[str, Path]] = {}
    for file, record in published.items():
        ids = RunIds.of(record.description)
        other = files.setdefault(DEFAULT.run(ids), file)
        if other != file:
            raise DataError(f"{file}: is the same run as {other}; take one of them away")
        data = str(record.description["dataset"].get("name"))
        dealt = data, without_label(ids.protocol), ids.split, ids.seed
        for key, value, among, why in (
            ("scale", ids.scale, (), "the two scales are published apart"),
            ("dataset_digest", record.dataset_digest, (data,), f"they were trained on different data, both {data}"),
            (
                *("partition_digest", record.partition_digest, dealt),
                f"they were trained on different partitions of {ids.split}, seed {ids.seed}",
            ),
        ):
            expected, where = first.setdefault((key, *among), (value, file))
            if value != expected:
                raise DataError(f"{file}: {key} is {value[:12]}, but {where} has {expected[:12]}: {why}")
    places = PublishedPlaces(str(path / "results"), folders={name: str(file.parent) for name, file in files.items()})
    return PublishedRuns(path, ids.scale, {str(file.parent): record for file, record in published.items()}, places)


def make_table(described: Experiment, runs: PublishedRuns, name: str, out: Path) -> None:
    """Write the table ``name`` into ``out`` in every format, and print how it compares with the paper's."""
    from flatfed.tables import write

    with compared(described, runs, name) as (layout, result):
        write.make(layout, out)
        print("\n".join(lines(result, True)))


@contextlib.contextmanager
def compared(
    described: Experiment, runs: PublishedRuns, name: str
) -> Iterator[tuple[TableSpec, verification.TableResult]]:
    """Make the cells of table ``name`` in a folder that lasts as long as the context.

    The context is the table's specification, and how its cells compare with the paper's.

    :raises DataError: a run is damaged or another one than its cell asks for, or there is none of the table.
    """
    made = described.cells(runs.scale, name)
    if not any(run.path in runs.records for cell in made for run in cell.runs):
        raise DataError(f"{runs.path}: holds no run of table {name}; {runs.summary}")
    with tempfile.TemporaryDirectory(prefix="flatfed-published-") as folder:
        for cell in made:
            sources, base_sources = map(_undealt, (cell.spec.sources, cell.spec.base_sources))
            path = Path(folder, cell.spec.column, f"{cell.spec.row}.json")
            number = cells.make(replace(cell.spec, sources=sources, base_sources=base_sources), path)
            # Runs are named as under results/, so that the table is the same wherever the published folder lies.
            names = {run.path: DEFAULT.run(run) for run in cell.runs}
            own, base = ([names[path] for path in paths] for paths in (number.runs, number.base_runs))
            cell_files.write(path, replace(number, runs=own, base_runs=base))
        layout = described.table_spec(runs.scale, name)
        datasets = {key: replace(dataset, manifest=None) for key, dataset in layout.datasets.items()}
        layout = replace(layout, cells=folder, datasets=datasets)
        printed = {(cell.spec.column, cell.spec.row) for cell in made if cell.spec.paper}
        yield layout, verification.table(layout, printed)


def _undealt(sources: Sources) -> Sources:
    """Return what a cell reads without the partitions of its runs, which are not published."""
    return replace(sources, partitions=[None] * len(sources.partitions))


def make_figure(described: Experiment, runs: PublishedRuns, name: str, out: Path) -> None:
    """Draw the figure ``name`` into ``out``."""
    from flatfed import figures as drawing

    wanted = described.figure(runs.scale, name)
    there = [path for path in wanted.runs if path in runs.records]
    if wanted.runs and not there:
        raise DataError(f"{runs.path}: holds no run of figure {name}; {runs.summary}")
    of_runs = {file for run in wanted.runs.values() for file in run.files}
    if absent := _absent([path for path in wanted.inputs if path not in of_runs], wanted.runs.values()):
        raise DataError(
            f"figure {name} reads {absent[0].removeprefix(f'{runs.path}/')}, which {runs.path} does not hold"
        )
    for path in there:
        identity.check_description(f"{path}/{records.RECORD}", runs.records[path], wanted.runs[path].description)
    # Data sets are counted by the records, whatever data lie on this machine; partitions are not published.
    datasets = {key: replace(dataset, manifest=None) for key, dataset in wanted.spec.datasets.items()}
    made_of = wanted.spec.made_of
    undealt = made_of and {**made_of, "partitions": [None] * len(made_of["partitions"])}
    drawing.make(replace(wanted.spec, datasets=datasets, made_of=undealt), out)


def is_table_complete(described: Experiment, runs: PublishedRuns, name: str) -> bool:
    """Return whether a table reads runs, and all that it reads is published."""
    if not {column.protocol for column in described.tables[name].columns.values()} <= runs.protocols:
        return False
    if not scales.tables(described, runs.scale, [(name, None)]):
        return False
    made = described.cells(runs.scale, name)
    return any(cell.runs for cell in made) and not any(_absent(cell.inputs, cell.runs) for cell in made)


def _is_figure_complete(described: Experiment, runs: PublishedRuns, name: str) -> bool:
    """Return whether a figure reads runs, and all that it reads is published."""
    panels = figures.panels(described.figures[name].settings)
    if not {entry["protocol"] for panel in panels for entry in figures.entries(panel)} <= runs.protocols:
        return False
    wanted = described.figure(runs.scale, name)
    return bool(wanted.runs) and not _absent(wanted.inputs, wanted.runs.values())


def _absent(inputs: Iterable[str], runs: Iterable[Run]) -> list[str]:
    """Return which ``inputs`` of a cell or figure are not there; the partitions of its ``runs`` are not needed."""
    partitions = {run.partition for run in runs}
    return [path for path in inputs if path not in partitions and not Path(path).is_file()]
