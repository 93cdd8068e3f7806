"""``flatfed results``: a page of results at the papers' own settings, from runs that are finished or not."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from flatfed.commands import arguments, configuration, kinds, published
from flatfed.commands.published import PublishedRuns
from flatfed.errors import ConfigError, DataError
from flatfed.experiment import Experiment
from flatfed.figures import targets
from flatfed.files import check_place, digest_json
from flatfed.papers.quantity import TEST
from flatfed.runs import identity
from flatfed.runs import record as records
from flatfed.runs.places import without_label
from flatfed.runs.record import LINES_SO_FAR, METRICS, RECORD, RECORD_SO_FAR, RunRecord
from flatfed.tables import made_of, own_setting, results_page
from flatfed.tables.own_setting import Outcome, Trained
from flatfed.tables.readings import hold_rounds, read_metrics
from flatfed.tables.results_page import SmallerSetting

#: Keys of a description that do not belong to a table's set-up, or are its rows' own.
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
    gathered, described, runs = runs_in(options.folders, options.config)
    outcomes = outcomes_of(described, runs)
    smaller = at_a_smaller_setting(described, gathered)
    if not outcomes and not smaller:
        raise DataError(
            f"{gathered.path}: {len(runs)} runs, "
            "and none of a setting of which a table of config/tables prints a number"
        )
    panels = panels_of(described, outcomes)
    picture = options.out.with_suffix(".png") if panels else None
    without_sums = made_of.without_sums(list(gathered.records.values()))
    said = results_page.write(outcomes, smaller, options.out, picture.name if picture else None, without_sums)
    if picture:
        text = options.out.read_text(encoding="utf-8").replace(f"({picture.name})", "()")
        targets.make(panels, picture, digest_json(text))
    print(f"{options.out}: {said}")


def runs_in(folders: Iterable[Path], config: configuration.Parts) -> tuple[PublishedRuns, Experiment, list[Trained]]:
    """Return the runs in ``folders`` as records, what the configuration describes of them, and as far as they are.

    :raises DataError: as :func:`gather`, :func:`trained` and :func:`refuse_twins` say.
    """
    gathered = gather(folders)
    described = published.described_for(gathered, config)
    runs = [trained(described, record, Path(folder)) for folder, record in gathered.records.items()]
    refuse_twins(runs)
    return gathered, described, runs


def gather(folders: Iterable[Path]) -> PublishedRuns:
    """Return the runs of paper scale in ``folders``, finished or not, at any depth; tuning's are no results.

    :raises DataError: there are none, one is damaged or not where its record says, or two do not belong together.
    """
    files: dict[Path, None] = {}
    for folder in folders:
        inside = [file for name in (RECORD, RECORD_SO_FAR) for file in sorted(folder.rglob(name))]
        files |= dict.fromkeys(file for file in inside if _is_result(file.parent.relative_to(folder)))
    results = {}
    for file in files:
        if file.name == RECORD_SO_FAR and _is_finished(file.parent):
            continue  # left over
        record = published.read_record(file)
        record.require(("device", "threads", "host", "seconds"), file)
        if record.description["scale"] == "paper":
            results[file] = record
    where = Path(", ".join(map(str, folders)))
    if not results:
        raise DataError(f"{where}: no {RECORD} or {RECORD_SO_FAR} of a run at paper scale in there")
    return published.together(where, results)


def _is_result(folder: Path) -> bool:
    """Return whether a run is a result: not one of tuning, nor one that was replaced and lies in a hidden folder."""
    return "tuning" not in folder.parts and not any(part.startswith(".") for part in folder.parts)


def _is_finished(folder: Path) -> bool:
    return (folder / RECORD).is_file()


def trained(described: Experiment, record: RunRecord, folder: Path) -> Trained:
    """Return the run of ``record`` with its lines and, where its protocol is known, the accuracy that this reads.

    :raises DataError: its lines are not those that the record was written with.
    """
    name = METRICS if _is_finished(folder) else LINES_SO_FAR
    try:
        history = _history(record, folder, name)
    except DataError:
        if name == METRICS:
            raise
        time.sleep(1)  # it is being trained: its lines were replaced, and its record not yet
        record = records.read(folder / RECORD_SO_FAR)
        history = _history(record, folder, name)
    run = Trained(record, history, str(folder))
    protocol = described.catalog.protocols.get(run.ids.protocol)
    accuracy = described.accuracy("paper", protocol.id) if protocol else run.accuracy
    return replace(run, accuracy=accuracy) if accuracy in history else run


def _history(record: RunRecord, folder: Path, name: str) -> dict[str, list[float]]:
    """Return all columns of the file ``name`` in ``folder``, held against the ``record``."""
    record.check_files(folder, name)
    history = read_metrics(folder / name, ("round", TEST), every=True)
    hold_rounds(folder, record, history, name)
    return history


def refuse_twins(runs: Iterable[Trained]) -> None:
    """Raise DataError where two runs are the same: of one setting, seed and precision, under two names."""
    first: dict[tuple[Any, ...], Trained] = {}
    for run in runs:
        other = first.setdefault((run.ids, run.setting, run.precision), run)
        if other is not run:
            raise DataError(
                f"{run.folder}: is the same run as {other.folder}, under another name; take one of them away"
            )


def outcomes_of(described: Experiment, runs: list[Trained]) -> list[Outcome]:
    """Return the outcomes of ``runs`` in all tables of the papers that have their set-ups."""
    protocols = {run.ids.protocol for run in runs}
    cells = []
    for name, table in described.tables.items():
        if table.settings.get("compare", "values") != "values" or table.reference is None:
            continue
        chosen = [key for key, column in table.columns.items() if without_label(column.protocol or "") in protocols]
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


def panels_of(described: Experiment, outcomes: list[Outcome]) -> list[targets.Panel]:
    """Return the panels of the picture: one for each set-up in which rounds to a target were counted."""
    panels: dict[tuple[str, str], targets.Panel] = {}
    counted: set[tuple[Any, ...]] = set()
    for outcome in outcomes:
        if outcome.cell.metric != "rounds_to_target" or outcome.quantity in counted:
            continue
        counted.add(outcome.quantity)
        about, ids = outcome.runs[0].description, outcome.runs[0].ids
        if (ids.protocol, ids.split) not in panels:
            data = described.catalog.datasets[about["dataset"]["name"]]["label"]
            split = ", ".join(described.catalog.splits[ids.split]["label"])
            title = f"{data}, {split}, {about['partition']['clients']} clients"
            panels[ids.protocol, ids.split] = targets.Panel(title, [], [])
        panel = panels[ids.protocol, ids.split]
        panel.targets.append(outcome)
        label = f"{described.catalog.algorithms[ids.algorithm]['label']} ({outcome.precision})"
        there = {run.folder for _, run in panel.runs}
        panel.runs.extend((label, run) for run in outcome.runs if run.folder not in there)
    return list(panels.values())


def at_a_smaller_setting(described: Experiment, runs: PublishedRuns) -> list[SmallerSetting]:
    """Return each table of which ``runs`` are there and whose rows are compared by order alone."""
    smaller = []
    for name, table in described.tables.items():
        if table.settings.get("compare") != "ordering" or table.reference is None:
            continue
        paths = {run.path for run in described.table_runs("paper", name)}
        there = [path for path in paths if path in runs.records and _is_finished(Path(path))]
        if not there:
            continue
        layout, outcomes = described.table_spec("paper", name), None
        if published.is_table_complete(described, runs, name):
            with published.compared(described, runs, name) as (_, result):
                outcomes = result.outcomes()
        about, differs = (layout.table, layout.title, layout.paper), _differences(described, name)
        smaller.append(SmallerSetting(*about, runs=len(paths), there=len(there), differs=differs, outcomes=outcomes))
    return smaller


def _differences(described: Experiment, name: str) -> list[tuple[str, str, str]]:
    """Return how the set-ups of a table's columns differ from those of the plain protocols: key, here, there."""
    table, differs = described.tables[name], {}
    row = next(iter(table.entries.values())).algorithm
    for column in table.columns.values():
        seed = described.seeds("paper", column.protocol)[0]
        try:
            plain = described.run("paper", without_label(column.protocol), column.split, row, seed).description
        except ConfigError:  # a split that is the variant's alone
            differs["split"] = ("split", column.split, "none such")
            continue
        here = described.run("paper", column.protocol, column.split, row, seed).description
        for key, ours, theirs in identity.differences(identity.deciding_values(here), identity.deciding_values(plain)):
            if not key.startswith(NOT_SET_UP):
                differs[key, str(ours)] = (key, *("–" if each is None else json.dumps(each) for each in (ours, theirs)))
    return list(differs.values())
