"""``flatfed results``: a page of results at the papers' own settings, from runs that are finished or not."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from typing import Any

from flatfed.commands import arguments, kinds, published, run_folders
from flatfed.commands.run_folders import FoundRuns
from flatfed.errors import ConfigError, DataError
from flatfed.experiment import Experiment, words
from flatfed.figures import targets
from flatfed.files import digest_json
from flatfed.runs import identity
from flatfed.runs.places import without_label
from flatfed.tables import claims, filled_table, made_of, own_setting, results_page, trials
from flatfed.tables.own_setting import Outcome, Trained
from flatfed.tables.results_page import OwnSettings, OwnTable, SmallerSetting

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
    arguments.add_folders(sub, "a folder that holds runs, at any depth")
    sub.add_argument(
        "--out", type=kinds.ending(".md"), required=True, metavar="FILE", help="the page, Markdown; a PNG beside it"
    )
    about = "Markdown that stands before the runs: why they end where they do, what was left out"
    sub.add_argument("--about", type=kinds.text_file, metavar="FILE", help=about)
    arguments.add_config(sub)


def run(options: argparse.Namespace) -> None:
    """Write the page and the picture that the command line asks for.

    :raises DataError: a folder holds no runs, a damaged one, or one that is there twice; or no run is of a setting that
        a table has.
    """
    found = run_folders.at_paper_scale(options.folders)
    described = run_folders.described_for(found, options.config)
    runs = run_folders.as_far_as_trained(found, described)
    own = at_own_settings(described, runs)
    outcomes = own.outcomes
    smaller = at_a_smaller_setting(described, found)
    if not outcomes and not smaller:
        raise DataError(
            f"{found.path}: {len(runs)} runs, and none of a setting of which a table of config/tables prints a number"
        )
    panels = panels_of(described, outcomes)
    picture = options.out.with_suffix(".png") if panels else None
    without_sums = made_of.without_sums(list(found.records.values()))
    otherwise = list(trials.trials(runs, results_page.trainings(outcomes)))
    image = picture.name if picture else None
    said = results_page.write(own, smaller, options.out, image, without_sums, otherwise, options.about or "")
    if picture:
        text = options.out.read_text(encoding="utf-8").replace(f"({picture.name})", "()")
        targets.make(panels, picture, digest_json(text))
    print(f"{options.out}: {said}")


def at_own_settings(described: Experiment, runs: list[Trained]) -> OwnSettings:
    """Return all that the tables of the papers print of ``runs``."""
    protocols = {run.ids.protocol for run in runs}
    found, rows = [], []
    for name, table in described.tables.items():
        if table.settings.get("compare", "values") != "values" or table.reference is None:
            continue
        chosen = [key for key, column in table.columns.items() if without_label(column.protocol or "") in protocols]
        if not chosen:
            continue
        layout = described.table_spec("paper", name, chosen)
        labels = {row.id: row.label for row in layout.rows}
        heading = f"{layout.paper}: {layout.title}"
        titles = {
            column.id: ", ".join([*([column.part] if column.part else []), *column.headers])
            for column in layout.columns
        }
        cells = [cell.spec for cell in described.cells("paper", name, chosen)]
        asked = [(spec, (heading, titles[spec.column], labels[spec.row])) for spec in cells]
        outcomes = list(own_setting.outcomes(asked, runs))
        if not outcomes:
            continue
        begun = dict.fromkeys(outcome.spec.row for outcome in outcomes)
        shown = dict.fromkeys(outcome.spec.column for outcome in outcomes)
        others = dict.fromkeys(
            spec.row
            for spec in cells
            if spec.column in shown and spec.row not in begun and own_setting.is_read_from_a_run(spec)
        )
        part = replace(
            table,
            columns={key: table.columns[key] for key in shown},
            entries={key: table.entries[key] for key in table.entries if key in begun},
        )
        rows += words.rows_trained(part, list(part.columns.values()))
        notes = [*table.settings.get("notes", []), *described.errata.notes(table.reference)]
        found.append(OwnTable(heading, outcomes, [labels[row] for row in others], notes))
    trained = results_page.trainings([outcome for table in found for outcome in table.outcomes])
    where = dict.fromkeys(setting_of(described, run) for run in trained)
    algorithms, protocols = (dict.fromkeys(getattr(row, name) for row in rows) for name in ("algorithm", "protocol"))
    chosen = [
        *words.of_rows(described, algorithms),
        *words.choices(described, "paper", algorithms, protocols),
        *(f"Not stated by the paper, {line}." for line in words.left_open(described, "paper", rows)),
    ]
    return OwnSettings(found, list(where), chosen)


def setting_of(described: Experiment, run: Trained) -> str:
    """Return what ``run`` was trained on, in words: data, split, clients."""
    about = run.description
    data = described.catalog.datasets[about["dataset"]["name"]]["label"]
    split = ", ".join(described.catalog.splits[run.ids.split]["label"])
    return f"{data}, {split}, {about['partition']['clients']} clients"


def panels_of(described: Experiment, outcomes: list[Outcome]) -> list[targets.Panel]:
    """Return the panels of the picture: one for each set-up in which rounds to a target were counted."""
    panels: dict[tuple[str, str], targets.Panel] = {}
    counted: set[tuple[Any, ...]] = set()
    for outcome in outcomes:
        if outcome.cell.metric != "rounds_to_target" or outcome.quantity in counted:
            continue
        counted.add(outcome.quantity)
        ids = outcome.runs[0].ids
        if (ids.protocol, ids.split) not in panels:
            panels[ids.protocol, ids.split] = targets.Panel(setting_of(described, outcome.runs[0]), [], [])
        panel = panels[ids.protocol, ids.split]
        panel.targets.append(outcome)
        label = f"{described.catalog.algorithms[ids.algorithm]['label']} ({outcome.precision})"
        there = {run.folder for _, run in panel.runs}
        panel.runs.extend((label, run) for run in outcome.runs if run.folder not in there)
    return list(panels.values())


def at_a_smaller_setting(described: Experiment, runs: FoundRuns) -> list[SmallerSetting]:
    """Return each table of which ``runs`` are there and whose rows are compared by order alone."""
    smaller = []
    for name, table in described.tables.items():
        if table.settings.get("compare") != "ordering" or table.reference is None:
            continue
        paths = {run.path for run in described.table_runs("paper", name)}
        there = [path for path in paths if path in runs.records and run_folders.is_finished(path)]
        if not there:
            continue
        layout, answers, few = described.table_spec("paper", name), None, None
        if published.is_table_complete(described, runs, name):
            with published.compared(described, runs, name) as (filled, result):
                answers, few = result.claims, claims.too_few_seeds(filled_table.read(filled).columns)
        smaller.append(
            SmallerSetting(
                *(layout.table, layout.title, layout.paper),
                runs=len(paths),
                there=len(there),
                differs=_differences(described, name),
                answers=answers,
                few=few,
            )
        )
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
