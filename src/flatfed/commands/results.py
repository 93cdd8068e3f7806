"""``flatfed results``: the page of what comes out at the papers' own settings, from runs that are finished or not."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flatfed import experiment
from flatfed.commands import arguments, configuration, published
from flatfed.errors import ConfigError, DataError
from flatfed.experiment import Experiment
from flatfed.files import check_place
from flatfed.runs import identity
from flatfed.runs import record as records

#: Columns of metrics.csv that every run has, and that outcomes are made of.
COLUMNS = ("round", "test_accuracy", "download_bytes", "upload_bytes")


def add(commands: Any) -> None:
    """Add the sub-command to the command line."""
    sub = arguments._add(
        commands,
        "results",
        "write the page of what comes out at the papers' own settings",
        "Reads folders of runs, finished or not (run.json, or run.so-far.json beside a checkpoint); trains nothing.\n"
        "Every number that a paper prints and that such a run has, in whatever precision, stands beside print: a\n"
        "target is reached when it is reached, whatever the run does later. Of tables made at a smaller setting the\n"
        "page says what differs and what may be concluded. A picture lies beside it, with the same name.",
        "python -m flatfed results results/published --out docs/results.md",
    )
    sub.add_argument("folders", nargs="+", type=arguments.folder, metavar="FOLDER", help="a folder that holds runs")
    sub.add_argument("--out", type=Path, required=True, metavar="FILE", help="the page, Markdown; a PNG beside it")
    arguments._add_config(sub)


def results(options: argparse.Namespace) -> None:
    """Write the page and the picture that the command line asks for.

    :raises DataError: a folder holds no runs, a damaged one, or one that another holds, too; or no run is of a setting
        that a table has.
    """
    from flatfed.tables import results_page
    from flatfed.tables.figures import targets

    if options.out.suffix != ".md":
        raise DataError(f"--out {options.out}: a file that ends in .md is wanted; the picture lies beside it")
    check_place(options.out)
    folders = gathered(options.folders)
    seeds = sorted({record["description"]["seed"] for found in folders for record, _ in found.runs.values()})
    asked = {key: value for key, value in configuration.read(options.config).items() if key != "seeds_together"}
    described = experiment.load(configuration.HOME, {**asked, "seeds": seeds}, published.RESULTS)
    runs = [trained(*one) for found in folders if found.scale == "paper" for one in found.runs.values()]
    made = outcomes(described, runs)
    smaller = [one for found in folders for one in at_a_smaller_setting(described, found)]
    if not made and not smaller:
        raise DataError(
            f"{', '.join(map(str, options.folders))}: {sum(len(found.runs) for found in folders)} runs, and none of a "
            "setting that a table of config/tables has at paper scale"
        )
    picture = options.out.with_suffix(".png")
    panels = drawn(described, made)
    if panels:
        targets.make(panels, picture)
    results_page.write(made, smaller, options.out, picture.name if panels else None)
    print(f"{options.out}: {results_page.verdict(made)}")


def gathered(folders: Iterable[Path]) -> list[published.Folder]:
    """Return the runs of ``folders``, those that lie together in one, a scale and a paper's set-up each.

    :raises DataError: as :func:`flatfed.commands.published.read`, or a run lies in two of them.
    """
    parts = [part for folder in folders for part in _parts(folder)]
    found = [published.read(part, so_far=True) for part in dict.fromkeys(parts)]
    told: dict[str, Path] = {}
    for one in found:
        for name, (_, folder) in one.runs.items():
            if name in told:
                raise DataError(f"{folder}: is the same run as {told[name]}; take one of them away")
            told[name] = folder
    return found


def _parts(folder: Path) -> list[Path]:
    """Return the folders in ``folder`` that hold a ``runs`` each, as published ones do; itself where none does."""
    inner = sorted({path.parent for path in folder.glob("*/runs") if path.is_dir()})
    return inner or [folder]


def trained(record: dict[str, Any], folder: Path) -> Any:
    """Return the run of ``record`` with its lines.

    :raises DataError: its lines are not those that the record was written with.
    """
    from flatfed.tables.own_setting import Trained
    from flatfed.tables.readings import hold_rounds, read_metrics

    name = records.METRICS if (folder / records.RECORD).is_file() else records.LINES_SO_FAR
    records.hold(folder, record, name)
    history = read_metrics(folder / name, COLUMNS)
    hold_rounds(folder, record, history, name)
    return Trained(record, history)


def outcomes(described: Experiment, runs: list[Any]) -> list[Any]:
    """Return what ``runs`` make of every table of the papers that is of their set-ups."""
    from flatfed.tables.own_setting import outcomes as made

    protocols = {run.description["protocol"].partition("~")[0] for run in runs}
    cells = []
    for name, table in described.tables.items():
        if table.settings.get("compare", "values") != "values" or table.reference is None:
            continue
        layout = described.table_spec("paper", name)
        titles = {column["id"]: column for column in layout["columns"]}
        labels = {row.id: row.label for row in table.entries.values()}
        for cell in described.cells("paper", name):
            column = titles[cell.spec["column"]]
            if table.columns[column["id"]].protocol in protocols:
                title = ", ".join([*([column["part"]] if column["part"] else []), *column["headers"]])
                heading = f"{layout['paper']}: {layout['title']}"
                cells.append((cell.spec, (heading, title, labels[cell.spec["row"]])))
    return list(made(cells, runs))


def drawn(described: Experiment, made: list[Any]) -> list[Any]:
    """Return the panels of the picture: the set-ups of which rounds to a target were counted."""
    from flatfed.tables.figures.targets import Panel

    found: dict[tuple[str, str], Panel] = {}
    for one in made:
        if one.target is None or not one.column:
            continue
        about = one.runs[0].description
        ids = about["protocol"].partition("~")[0], about["split"]
        if ids not in found:
            data = described.catalog.datasets[about["dataset"]["name"]]["label"]
            label = ", ".join(described.catalog.splits[about["split"]]["label"])
            found[ids] = Panel(f"{data}, {label}, {about['partition']['clients']} clients", [], [])
        panel = found[ids]
        entry = described.catalog.algorithms[about["algorithm"]]["label"]
        for run in one.runs:
            label = f"{entry} ({run.precision})"
            if all(known is not run for _, known in panel.runs):
                panel.runs.append((label, run))
        if one.unit == "rounds" and all((o.algorithm, o.target) != (one.algorithm, one.target) for o in panel.targets):
            panel.targets.append(one)
    return list(found.values())


def at_a_smaller_setting(described: Experiment, found: published.Folder) -> list[dict[str, Any]]:
    """Return of each table whose rows are compared by order alone, and of which ``found`` holds all runs, how.

    ``table``, ``title``, ``paper``; ``runs``, how many; ``differs``: (key, here, at the paper's setting); ``result``,
    of :mod:`flatfed.tables.verify`.
    """
    made = []
    for name, table in described.tables.items():
        if table.settings.get("compare") != "ordering" or not published.whole_table(described, found, name):
            continue
        with published.compared(described, found, name) as (layout, result):
            column = next(iter(table.columns.values()))
            row = next(iter(table.entries.values()))
            ids = column.split, row.algorithm, described.seeds("paper", column.protocol)[0]
            try:
                papers = described.run("paper", column.protocol.partition("~")[0], *ids).description
            except ConfigError:  # the variant has a split that the paper's own set-up cannot have
                papers = {}
            here = described.run("paper", column.protocol, *ids).description
            keys = identity.differences(identity.decided(here), identity.decided(papers))
            differs = [
                (key, json.dumps(ours), json.dumps(theirs))
                for key, ours, theirs in keys
                if key not in ("protocol",) and not key.startswith(("update.", "evaluation."))
            ]
            told = {key: layout[key] for key in ("table", "title", "paper")}
            made.append({**told, "differs": differs, "result": result, "runs": len(found.runs)})
    return made
