"""``flatfed results``: the page of what comes out at the papers' own settings, from runs that are finished or not."""

from __future__ import annotations

import argparse
import csv
import json
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from flatfed.commands import arguments, kinds, published
from flatfed.errors import ConfigError, DataError
from flatfed.experiment import Experiment
from flatfed.figures import targets
from flatfed.files import check_place, digest_json
from flatfed.runs import identity
from flatfed.runs import record as records
from flatfed.runs.record import RunRecord
from flatfed.tables import made_of, own_setting, results_page
from flatfed.tables.own_setting import Outcome, Trained
from flatfed.tables.readings import hold_rounds, read_metrics

#: Keys of a description that are no set-up of a table's, or its rows' own.
NOT_SET_UP = ("protocol", "split", "algorithm", "seed", "update.", "evaluation.")

DETAIL = """\
Reads folders of runs, finished or not (run.json, or run.so-far.json beside a checkpoint); trains nothing.
Accuracies and what is counted to a target stand beside what papers print of that very setting, whatever the
run's precision: a target is reached when it is reached, whatever the run does later. Of tables made at a
smaller setting the page says what differs and what may be concluded. A picture lies beside it."""
EXAMPLE = "python -m flatfed results results/published --out docs/results.md"


def add(sub: argparse.ArgumentParser) -> None:
    """Add what the sub-command takes."""
    sub.add_argument(
        "folders", nargs="+", type=kinds.folder, metavar="FOLDER", help="a folder that holds runs, at any depth"
    )
    sub.add_argument(
        "--out", type=kinds.file, required=True, metavar="FILE", help="the page, Markdown; a PNG beside it"
    )
    arguments.add_config(sub)


def run(options: argparse.Namespace) -> None:
    """Write the page and the picture that the command line asks for.

    :raises DataError: a folder holds no runs, a damaged one, or one that is there twice; or no run is of a setting that
        a table has.
    """
    if options.out.suffix != ".md":
        raise DataError(f"--out {options.out}: a file that ends in .md is wanted; the picture lies beside it")
    check_place(options.out)
    found = gathered(options.folders)
    described = published.described_for(found, options.config)
    runs = [measured_by(described, run) for run in once(trained(*one) for one in found.runs.values())]
    made = outcomes(described, runs)
    smaller = at_a_smaller_setting(described, found)
    if not made and not smaller:
        raise DataError(
            f"{found.path}: {len(runs)} runs, and none of a setting of which a table of config/tables prints a number"
        )
    panels = drawn(described, made)
    picture = options.out.with_suffix(".png") if panels else None
    sums = made_of.without_sums([record for record, _ in found.runs.values()])
    results_page.write(made, smaller, options.out, picture.name if picture else None, sums)
    if picture:
        text = options.out.read_text(encoding="utf-8").replace(f"({picture.name})", "()")
        targets.make(panels, picture, digest_json(text))
    print(f"{options.out}: {results_page.verdict(made)}")


def measured_by(described: Experiment, run: Trained) -> Trained:
    """Return ``run`` with the accuracy that its protocol reads, where the protocol is known and the run has it."""
    protocol = described.catalog.protocols.get(run.ids[0])
    name = described.accuracy("paper", protocol.id) if protocol else run.accuracy
    return replace(run, accuracy=name) if name in run.history else run


def gathered(folders: Iterable[Path]) -> published.Folder:
    """Return the runs of paper scale in ``folders``, finished or not, at any depth; tuning's are no results.

    :raises DataError: there are none, one is damaged or not where its record says, or two do not belong together.
    """
    files: dict[Path, None] = {}
    for folder in folders:
        inside = [file for name in (records.RECORD, records.RECORD_SO_FAR) for file in sorted(folder.rglob(name))]
        files |= dict.fromkeys(file for file in inside if not _beside(file, folder))
    found = {}
    for file in files:
        if file.name == records.RECORD_SO_FAR and file.with_name(records.RECORD) in found:
            continue  # left over
        record = published.known(file)
        record.require(("device", "threads", "host", "seconds"), file)
        if record.description["scale"] == "paper":
            found[file] = record
    where = Path(", ".join(map(str, folders)))
    if not found:
        names = f"{records.RECORD} or {records.RECORD_SO_FAR}"
        raise DataError(f"{where}: no {names} of a run at paper scale in there")
    return published.of(where, found)


def _beside(file: Path, folder: Path) -> bool:
    """Return whether a record is no result: of a run that was replaced, in a hidden folder, or of tuning."""
    inner = file.parent.relative_to(folder).parts
    return "tuning" in inner or any(part.startswith(".") for part in inner)


def trained(record: RunRecord, folder: Path) -> Trained:
    """Return the run of ``record`` with its lines.

    :raises DataError: its lines are not those that the record was written with.
    """
    name = records.METRICS if _finished(folder) else records.LINES_SO_FAR
    try:
        return _trained(record, folder, name)
    except DataError:
        if name == records.METRICS:
            raise
    time.sleep(1)  # it is being trained: its lines were replaced, and its record not yet
    return _trained(records.read(folder / records.RECORD_SO_FAR), folder, name)


def _trained(record: RunRecord, folder: Path, name: str) -> Trained:
    record.check_files(folder, name)
    with open(folder / name, newline="", encoding="utf-8") as file:
        columns = next(csv.reader(file), [])
    history = read_metrics(folder / name, tuple(dict.fromkeys(("round", "test_accuracy", *columns))))
    hold_rounds(folder, record, history, name)
    return Trained(record, history, str(folder))


def once(runs: Iterable[Trained]) -> list[Trained]:
    """Return ``runs``; DataError where two are the same one: of one setting, seed and precision, under two names."""
    there: dict[tuple[Any, ...], Trained] = {}
    for run in runs:
        other = there.setdefault((run.ids, run.setting, run.precision), run)
        if other is not run:
            raise DataError(
                f"{run.folder}: is the same run as {other.folder}, under another name; take one of them away"
            )
    return list(there.values())


def outcomes(described: Experiment, runs: list[Trained]) -> list[Outcome]:
    """Return what ``runs`` make of every table of the papers that is of their set-ups."""
    protocols = {run.ids[0] for run in runs}
    cells = []
    for name, table in described.tables.items():
        of = {key: column.protocol.partition("~")[0] for key, column in table.columns.items() if column.protocol}
        if table.settings.get("compare", "values") != "values" or table.reference is None:
            continue
        chosen = [column for column, protocol in of.items() if protocol in protocols]
        if not chosen:
            continue
        layout = described.table_spec("paper", name, chosen)
        columns = {column.id: column for column in layout.columns}
        labels = {row.id: row.label for row in layout.rows}
        heading = f"{layout.paper}: {layout.title}"
        for cell in described.cells("paper", name, chosen):
            column = columns[cell.spec.column]
            title = ", ".join([*([column.part] if column.part else []), *column.headers])
            cells.append((cell.spec, (heading, title, labels[cell.spec.row])))
    return list(own_setting.outcomes(cells, runs))


def drawn(described: Experiment, made: list[Outcome]) -> list[targets.Panel]:
    """Return the panels of the picture: the set-ups of which rounds to a target were counted."""
    found: dict[tuple[str, str], targets.Panel] = {}
    counted: set[tuple[Any, ...]] = set()
    for one in made:
        if one.cell.metric != "rounds_to_target" or one.quantity in counted:
            continue
        counted.add(one.quantity)
        about = one.runs[0].description
        if one.runs[0].ids[:2] not in found:
            data = described.catalog.datasets[about["dataset"]["name"]]["label"]
            split = ", ".join(described.catalog.splits[about["split"]]["label"])
            title = f"{data}, {split}, {about['partition']['clients']} clients"
            found[one.runs[0].ids[:2]] = targets.Panel(title, [], [])
        panel = found[one.runs[0].ids[:2]]
        panel.targets.append(one)
        label = f"{described.catalog.algorithms[about['algorithm']]['label']} ({one.precision})"
        there = {run.folder for _, run in panel.runs}
        panel.runs.extend((label, run) for run in one.runs if run.folder not in there)
    return list(found.values())


def at_a_smaller_setting(described: Experiment, found: published.Folder) -> list[dict[str, Any]]:
    """Return of each table whose rows are compared by order alone, and of which ``found`` holds runs, how they do.

    ``table``, ``title``, ``paper``; ``runs`` of it, ``there`` how many; ``differs``: (key, here, at the paper's
    setting); ``result``, of :mod:`flatfed.tables.verification`, None where not all runs are there.
    """
    made = []
    for name, table in described.tables.items():
        if table.settings.get("compare") != "ordering" or table.reference is None:
            continue
        paths = {run.path for run in described.table_runs("paper", name)}
        there = [path for path in paths if path in found.runs and _finished(found.runs[path][1])]
        if not there:
            continue
        layout = described.table_spec("paper", name)
        told = {
            **{key: getattr(layout, key) for key in ("table", "title", "paper")},
            **{"runs": len(paths), "there": len(there), "differs": _differs(described, name), "result": None},
        }
        if published.whole_table(described, found, name):
            with published.compared(described, found, name) as (_, result):
                told["result"] = result
        made.append(told)
    return made


def _finished(folder: Path) -> bool:
    return (folder / records.RECORD).is_file()


def _differs(described: Experiment, name: str) -> list[tuple[str, str, str]]:
    """Return in what the set-ups of a table's columns differ from those of the protocols that they are variants of."""
    table, found = described.tables[name], {}
    row = next(iter(table.entries.values())).algorithm
    for column in table.columns.values():
        seed = described.seeds("paper", column.protocol)[0]
        plain = column.protocol.partition("~")[0]
        try:
            papers = described.run("paper", plain, column.split, row, seed).description
        except ConfigError:  # a split that is the variant's alone
            found["split"] = ("split", column.split, "none such")
            continue
        here = described.run("paper", column.protocol, column.split, row, seed).description
        for key, ours, theirs in identity.differences(identity.deciding_values(here), identity.deciding_values(papers)):
            if not key.startswith(NOT_SET_UP):
                found[key, str(ours)] = (key, *("–" if one is None else json.dumps(one) for one in (ours, theirs)))
    return list(found.values())
