"""``flatfed published``: tables, curves and claims made again from the metrics and records of published runs."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from flatfed.commands import arguments, kinds, run_folders
from flatfed.commands.run_folders import FoundRuns
from flatfed.commands.verify import lines
from flatfed.errors import DataError
from flatfed.experiment import Experiment, Run, scales
from flatfed.runs import identity
from flatfed.runs import record as records
from flatfed.runs.places import DEFAULT
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
    sub.add_argument("folder", type=kinds.folder, metavar="FOLDER", help="folder of published runs")
    each = "(default: all whose runs are all there; may be given several times)"
    sub.add_argument("--table", action="append", default=[], metavar="TABLE", help=f"table to make {each}")
    sub.add_argument("--figure", action="append", default=[], metavar="FIGURE", help=f"figure to draw {each}")
    arguments.add_path(sub, "--out", "DIR", "folder to write")
    arguments.add_config(sub)


def run(options: argparse.Namespace) -> None:
    """Make what the command line asks for.

    :raises ConfigError: there is no such table or figure.
    :raises DataError: there are no runs, one is damaged, not the one that the configuration describes or trained on
        other data than the others, or a figure reads what is not published.
    """
    runs = run_folders.finished_in(options.folder)
    described = run_folders.described_for(runs, options.config)
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
    made = [*(f"table {name}" for name in tables), *(f"figure {name}" for name in drawn)]
    print(f"{options.out}: made from {len(runs.records)} runs: {', '.join(made)}")


def make_table(described: Experiment, runs: FoundRuns, name: str, out: Path) -> None:
    """Write the table ``name`` into ``out`` in every format, and print how it compares with the paper's."""
    from flatfed.tables import write

    with compared(described, runs, name) as (layout, result):
        write.make(layout, out)
        print("\n".join(lines(result, True)))


@contextlib.contextmanager
def compared(described: Experiment, runs: FoundRuns, name: str) -> Iterator[tuple[TableSpec, verification.TableResult]]:
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


def make_figure(described: Experiment, runs: FoundRuns, name: str, out: Path) -> None:
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


def is_table_complete(described: Experiment, runs: FoundRuns, name: str) -> bool:
    """Return whether a table reads runs, and all that it reads is published."""
    if not runs.protocols.issuperset(scales.of_table(described.tables[name])):
        return False
    if not scales.has_table(described, runs.scale, name):
        return False
    made = described.cells(runs.scale, name)
    return any(cell.runs for cell in made) and not any(_absent(cell.inputs, cell.runs) for cell in made)


def _is_figure_complete(described: Experiment, runs: FoundRuns, name: str) -> bool:
    """Return whether a figure reads runs, and all that it reads is published."""
    if not runs.protocols.issuperset(described.figures[name].protocols):
        return False
    wanted = described.figure(runs.scale, name)
    return bool(wanted.runs) and not _absent(wanted.inputs, wanted.runs.values())


def _absent(inputs: Iterable[str], runs: Iterable[Run]) -> list[str]:
    """Return which ``inputs`` of a cell or figure are not there; the partitions of its ``runs`` are not needed."""
    partitions = {run.partition for run in runs}
    return [path for path in inputs if path not in partitions and not Path(path).is_file()]
