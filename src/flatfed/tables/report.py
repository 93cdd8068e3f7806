"""The report of one scale: a self-contained HTML page with all tables, figures, runs and settings."""

from __future__ import annotations

import base64
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pandas as pd
import yaml
from markupsafe import Markup, escape

from flatfed import __version__
from flatfed.files import write_whole
from flatfed.plan.at_scale import ShownReport, ShownTable
from flatfed.runs import source_code
from flatfed.tables import blocks, reported_runs
from flatfed.tables.blocks import CellText, TypesetTable
from flatfed.tables.formats import html
from flatfed.tables.image_counts import with_counts

#: Suffix of a file -> text of its link, in order.
FILES = {".csv": "CSV", ".tex": "TeX", ".md": "Markdown", ".html": "page"}
FILES |= {".png": "PNG", ".pdf": "PDF", ".txt": "notes"}

#: The most characters of the page; other pictures are linked.
MOST = 4_800_000

#: Start of a note on the paper's printed numbers: the id of an erratum.
ERRATUM = re.compile(r"[A-Z]\d+: ")

#: Row id -> (label, accuracy by round and seed).
Curves = Mapping[str, tuple[str, pd.DataFrame]]


def make(spec: ShownReport, out: str | Path, draw: Callable[[str, Curves], str] | None = None) -> None:
    """Write the report ``spec`` to ``out``.

    Links are relative to ``out``. The report counts and names absent cells, runs and pictures. ``draw``
    returns HTML that plots the curves of an accuracy.

    :raises DataError: an existing file is damaged, or a run is not the requested one.
    """
    scale, paths = spec.scale, spec.paths
    tables = [blocks.typeset(unprinted(table) if scale == "preview" else table) for table in spec.tables]
    runs = [reported_runs.read(run) for run in spec.runs]
    records = [run.record for run in runs if run.record]
    counts = [record.image_counts for record in records]
    printed = any(table.printed for table in spec.tables)
    # Without figures and printed numbers, no paper is involved.
    papers = bool(spec.figures) or not tables or printed
    figures = [replace(f, setting=with_counts(f.setting, f.datasets, counts)) for f in spec.figures]
    groups = reported_runs.groups(runs)
    groups_of_runs = {run.run.in_results.path: group for group in groups for run in group.runs}
    column, accuracy, curves = next(filter(None, (first_curves(t, groups_of_runs) for t in tables)), ("", "", {}))
    commit = source_code.commit()

    def address(path: str | Path) -> str:
        return Path(os.path.relpath(path, Path(out).parent)).as_posix()

    def links(shown: CellText) -> list[str]:
        return list(dict.fromkeys(groups_of_runs[folder].id for folder in shown.cell.runs if folder in groups_of_runs))

    def files(paths: Iterable[str | Path]) -> list[tuple[str, str]]:
        addresses = {Path(path).suffix: address(path) for path in paths}
        return [(name, addresses[suffix]) for suffix, name in FILES.items() if suffix in addresses]

    body = html.filled(
        "report.html",
        scale=scale,
        papers=papers,
        switch=printed and scale == "preview",
        left_out=spec.left_out,
        plot=Markup(draw(accuracy, curves)) if draw and curves else "",
        column=column,
        tables=[(table, html.fragment(table, links, files(paths.table(scale, table.id)))) for table in tables],
        statuses=sum((table.statuses for table in tables), Counter()),
        red=blocks.RED,
        figures=figures,
        pictures=lambda figure: paths.figure(scale, figure.id),
        exists=os.path.isfile,
        files=files,
        runs=runs,
        states=Counter(run.state.split(" ")[0] for run in runs),
        environments=reported_runs.environments(records),
        settings=reported_runs.settings(runs),
        datasets=sorted({(record.config.dataset.name, record.dataset_digest) for record in records}),
        groups=groups,
        address=address,
        trained=reported_runs.days_and_chips(records),
        version=f"{__version__}{f', commit {commit}' if commit else ''}",
        configuration=yaml.safe_dump(spec.configuration, sort_keys=False, allow_unicode=True),
    )
    title = f"FlatFed report, {scale} scale" if papers else "FlatFed report"
    page = str(html.framed(title, body))
    for path in filter(os.path.isfile, (paths.figure(scale, figure.id)[0] for figure in figures)):
        data = "data:image/png;base64," + base64.b64encode(Path(path).read_bytes()).decode("ascii")
        if len(page) + len(data) < MOST:
            page = page.replace(f'src="{escape(address(path))}"', f'src="{data}"')
    with write_whole(out, "w") as file:
        file.write(page)


def unprinted(table: ShownTable) -> ShownTable:
    """Return a table without the paper's columns and errata."""
    return replace(table, printed=False, notes=[note for note in table.notes if not ERRATUM.match(note)])


def first_curves(table: TypesetTable, groups: Mapping[str, reported_runs.Group]) -> tuple[str, str, Curves] | None:
    """Return headers, accuracy and curves of the first column with curves; ``groups``: folder of a run -> group."""
    for column in table.shown.columns.values():
        runs = [(row, table.by_column[column.id][row.id].runs) for row in table.shown.rows.values()]
        # A mean over several splits has no curve.
        folders = [(row, paths[0]) for row, paths in runs if len({*map(os.path.dirname, paths)}) == 1]
        shown = [(row, groups[folder]) for row, folder in folders if folder in groups]
        curves = {row.id: (row.label, group.accuracies) for row, group in shown if len(group.accuracies) > 1}
        if curves:
            columns = table.shown.columns.values()
            headers = [text for text in column.headers if any(text not in other.headers for other in columns)]
            return f"{table.title}: {', '.join(headers or column.headers)}", shown[0][1].accuracies.columns.name, curves
    return None
