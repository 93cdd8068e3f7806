"""``flatfed published``: table, curves and claims of published runs again, from their metrics and records alone."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flatfed import experiment, forms
from flatfed.commands import arguments, configuration
from flatfed.commands.verify import lines
from flatfed.errors import DataError
from flatfed.experiment import Experiment, figures
from flatfed.files import check_place
from flatfed.runs import description, identity
from flatfed.runs import record as records
from flatfed.runs.places import Places, RunIds
from flatfed.runs.record import RunRecord
from flatfed.specs import cell as cell_files
from flatfed.specs.cell import Sources
from flatfed.specs.table import TableSpec
from flatfed.tables.verification import TableResult

#: Where the configuration has its results; a published folder has them elsewhere, which :class:`Folder` knows.
RESULTS = "results"

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
class Folder:
    """Published runs: ``runs`` are record and folder of each, by the path that it has under results/."""

    path: Path
    scale: str
    runs: dict[str, tuple[RunRecord, Path]]

    def place(self, path: str) -> Path:
        """Return where here lies what has ``path`` under results/: a run's folder, a file of it or of its analyses."""
        for given in (path, path.replace("/analysis/", "/runs/", 1)):
            rest: tuple[str, ...] = ()
            for above in (Path(given), *Path(given).parents):
                if above.as_posix() in self.runs:
                    folder = self.runs[above.as_posix()][1]
                    return (folder if given == path else _beside(folder)).joinpath(*reversed(rest))
                rest = (*rest, above.name)
        return self.path / path

    def placed(self, value: Any) -> Any:
        """Return a specification with every path under results/ as :meth:`place` has it."""
        if isinstance(value, dict):
            return {key: self.placed(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.placed(each) for each in value]
        return str(self.place(value)) if isinstance(value, str) and value.startswith(f"{RESULTS}/") else value

    def sources(self, asked: Sources) -> Sources:
        """Return what a cell reads, where it lies here; the partitions, which are not published, are not looked at."""
        return replace(
            asked,
            runs=[str(self.place(path)) for path in asked.runs],
            partitions=[None] * len(asked.partitions),
            analyses=[str(self.place(path)) for path in asked.analyses],
            timing=asked.timing and str(self.place(asked.timing)),
        )

    def absent(self, inputs: Iterable[str]) -> list[Path]:
        """Return which of the ``inputs`` of a cell or figure are not here; partitions never are, and are not needed."""
        places = (self.place(path) for path in inputs if "/partitions/" not in path)
        return [place for place in places if not place.is_file()]


def run(options: argparse.Namespace) -> None:
    """Make what the command line asks for.

    :raises ConfigError: there is no such table or figure.
    :raises DataError: there are no runs, one is damaged, not the one that the configuration describes or trained on
        other data than the others, or a figure reads what is not published.
    """
    check_place(options.out, folder=True)
    found = read(options.folder)
    described = described_for(found, options.config)
    tables = options.table or [name for name in described.tables if whole_table(described, found, name)]
    drawn = options.figure or [name for name in described.figures if _whole_figure(described, found, name)]
    if not tables and not drawn:
        raise DataError(
            f"{found.path}: {len(found.runs)} runs, and no table or figure of which every run is there; "
            "--table or --figure makes one from those that are"
        )
    for name in tables:
        make_table(described, found, name, options.out)
    for name in drawn:
        make_figure(described, found, name, options.out)
    print(f"{options.out}: made from {len(found.runs)} runs: {', '.join([*tables, *drawn])}")


def described_for(found: Folder, config: configuration.Parts) -> Experiment:
    """Return what the configuration describes, with the seeds of the runs ``found``."""
    seeds = sorted({record.description["seed"] for record, _ in found.runs.values()})
    asked = {key: value for key, value in configuration.read(config).items() if key != "seeds_together"}
    return experiment.load(configuration.HOME, {**asked, "seeds": seeds}, Places(RESULTS))


def read(path: Path) -> Folder:
    """Return the published runs in the folder ``path``.

    :raises DataError: there are none, one is damaged or not where its record says, or two do not belong together.
    """
    files = [file for file in sorted(path.rglob(records.RECORD)) if not file.parent.name.startswith(".")]
    if not files:
        raise DataError(f"{path}: no {records.RECORD} in there, so no published run")
    return of(path, {file: known(file) for file in files})


def known(file: Path) -> RunRecord:
    """Return the record in ``file``; DataError where it is damaged, or not where its description says."""
    record = records.read(file)
    forms.check(record.description, IDS, f"{file}: description")
    identity.check_folder(file.parent, record)
    return record


def of(path: Path, found: dict[Path, RunRecord]) -> Folder:
    """Return the runs whose records ``found`` are, by file; DataError where two do not belong together."""
    runs: dict[str, tuple[RunRecord, Path]] = {}
    told: dict[tuple[str, ...], tuple[str, Path]] = {}
    for file, record in found.items():
        about = record.description
        ids = RunIds(*(about[key] for key in ("scale", "protocol", "split", "algorithm", "seed")))
        protocol, name = ids.protocol.partition("~")[0], Places(RESULTS).run(ids)
        if name in runs:
            raise DataError(f"{file}: is the same run as {runs[name][1] / file.name}; take one of them away")
        runs[name] = (record, file.parent)
        data = str(about["dataset"].get("name"))
        for what, key, said in (
            (("scale",), ids.scale, "the two scales are published apart"),
            (("dataset_digest", data), record.dataset_digest, f"they were trained on different data, both {data}"),
            (
                ("partition_digest", data, protocol, ids.split, str(ids.seed)),
                record.partition_digest,
                f"they were trained on different partitions of {ids.split}, seed {ids.seed}",
            ),
        ):
            other, where = told.setdefault(what, (str(key), file))
            if str(key) != other:
                raise DataError(f"{file}: {what[0]} is {str(key)[:12]}, but {where} has {other[:12]}: {said}")
    return Folder(path, ids.scale, runs)


def make_table(described: Experiment, found: Folder, name: str, out: Path) -> None:
    """Write the table ``name`` into ``out`` in every format, and print how it compares with the paper's."""
    from flatfed.tables import write

    with compared(described, found, name) as (layout, result):
        write.make(layout, out)
        print("\n".join(lines(result, True)))


@contextlib.contextmanager
def compared(described: Experiment, found: Folder, name: str) -> Iterator[tuple[TableSpec, TableResult]]:
    """Make the cells of table ``name`` for as long as the context lasts: what ``flatfed table`` takes, and how they
    compare with the paper's.

    :raises DataError: a run is damaged or another one than its cell asks for, or there is none of the table.
    """
    from flatfed.tables import cells, verification

    made = described.cells(found.scale, name)
    if not any(run.path in found.runs for cell in made for run in cell.runs):
        raise DataError(f"{found.path}: holds no run of table {name}; {_held(found)}")
    with tempfile.TemporaryDirectory(prefix="flatfed-published-") as folder:
        for cell in made:
            sources, base_sources = found.sources(cell.spec.sources), found.sources(cell.spec.base_sources)
            spec = replace(cell.spec, sources=sources, base_sources=base_sources)
            path = Path(folder, spec.column, f"{spec.row}.json")
            number = cells.make(spec, path)
            # Named as under results/, so that the table is the same wherever the folder lies.
            named = {"runs": cell.spec.sources.runs, "base_runs": cell.spec.base_sources.runs}
            cell_files.write(path, replace(number, **named))
        layout = described.table_spec(found.scale, name)
        datasets = {name: replace(each, manifest=None) for name, each in layout.datasets.items()}
        layout = replace(layout, cells=folder, datasets=datasets)
        printed = {(cell.spec.column, cell.spec.row) for cell in made if cell.spec.paper}
        yield layout, verification.table(layout, printed)


def make_figure(described: Experiment, found: Folder, name: str, out: Path) -> None:
    """Draw the figure ``name`` into ``out``."""
    from flatfed import figures as drawing

    wanted = described.figure(found.scale, name)
    there = [path for path in wanted.runs if path in found.runs]
    if wanted.runs and not there:
        raise DataError(f"{found.path}: holds no run of figure {name}; {_held(found)}")
    of_runs = {f"{path}/{file}" for path in wanted.runs for file in (records.METRICS, records.RECORD)}
    dealt = wanted.spec.get("made_of", {}).get("partitions", ())
    others = [path for path in wanted.inputs if path not in of_runs and path not in dealt]
    if absent := [path for path in others if not found.place(path).is_file()]:
        raise DataError(f"figure {name} reads {absent[0]}, which {found.path} does not hold")
    for path in there:
        record, folder = found.runs[path]
        identity.check_description(str(folder / records.RECORD), record, wanted.runs[path].description)
    drawing.make(found.placed(_uncounted(_undealt(wanted.spec))), out)


def whole_table(described: Experiment, found: Folder, name: str) -> bool:
    """Return whether all that a table reads is published; of one that reads no runs, nothing is."""
    protocols = {column.protocol for column in described.tables[name].columns.values()}
    if not protocols <= _protocols(found):
        return False
    made = described.cells(found.scale, name)
    return any(cell.runs for cell in made) and not any(found.absent(cell.inputs) for cell in made)


def _whole_figure(described: Experiment, found: Folder, name: str) -> bool:
    """Return whether all that a figure reads is published, and it reads runs."""
    panels = figures.panels(described.figures[name].settings)
    if not {entry["protocol"] for panel in panels for entry in figures.entries(panel)} <= _protocols(found):
        return False
    wanted = described.figure(found.scale, name)
    return bool(wanted.runs) and not found.absent(wanted.inputs)


def _protocols(found: Folder) -> set[str | None]:
    return {record.description["protocol"] for record, _ in found.runs.values()}


def _held(found: Folder) -> str:
    """Say of which protocols and scale the published runs are."""
    return f"its {len(found.runs)} runs are of {', '.join(sorted(map(str, _protocols(found))))}, {found.scale} scale"


def _uncounted(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a specification whose data sets are counted by the records, whatever data lie on this machine."""
    return {**spec, "datasets": {name: {**about, "manifest": None} for name, about in spec["datasets"].items()}}


def _undealt(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a figure's specification without the partitions of its runs, which are not published."""
    if "made_of" not in spec:
        return spec
    made_of = spec["made_of"]
    return {**spec, "made_of": {**made_of, "partitions": [None] * len(made_of["partitions"])}}


def _beside(run: Path) -> Path:
    """Return where the analyses of a published run lie: under ``analysis`` in place of ``runs``."""
    parts = list(run.parts)
    if "runs" in parts:
        parts[len(parts) - 1 - parts[::-1].index("runs")] = "analysis"
    return Path(*parts)
