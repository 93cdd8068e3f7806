"""The report of one scale: one self-contained HTML page with every table, every figure, and what they cost."""

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
from flatfed.experiment.model import TableSpec
from flatfed.experiment.report_spec import ReportSpec
from flatfed.files import write_whole
from flatfed.runs import source_code
from flatfed.tables import blocks, filled_table, page_templates, runs
from flatfed.tables.blocks import Texts, TypesetTable
from flatfed.tables.formats import html
from flatfed.tables.trained_on import as_read

#: Statuses of cells in the order in which a reader asks for them.
STATUSES = ("ok", "not_reached", "diverged", "missing", "not_applicable")

#: Suffix of a file of a table or figure -> what the link to it is called, in the order of the links.
FILES = {".csv": "CSV", ".tex": "TeX", ".md": "Markdown", ".html": "page", ".png": "PNG", ".pdf": "PDF"}

#: Characters of the page. The page links to the pictures that do not fit, and embeds the others.
MOST = 4_800_000

#: Start of a note on the paper's printed numbers: the id of an erratum.
ERRATUM = re.compile(r"[A-Z]\d+: ")

#: Row id -> (label, accuracy by round and seed), the curves of one column of a table.
Curves = Mapping[str, tuple[str, pd.DataFrame]]


def make(spec: ReportSpec, out: str | Path, draw: Callable[[str, Curves], str] | None = None) -> None:
    """Write the report ``spec`` to ``out``, whole.

    Links to files of tables, pictures and runs are relative to ``out``; so is the link to the papers' errata, if any
    table or figure is a paper's. The report counts and names absent cells, runs and pictures; they are no error.
    ``draw`` returns HTML that plots the curves of a quantity.

    :raises DataError: an existing file is damaged, or a run is not the requested one.
    """
    scale, figures = spec.scale, {figure.png: figure.spec for figure in spec.figures}
    tables = [
        blocks.typeset(filled_table.fill(unprinted(table.layout) if scale == "preview" else table.layout, table.cells))
        for table in spec.tables
    ]
    made = [runs.read(run) for run in spec.runs]
    found = [run.about for run in made if run.about]
    counted = [about.image_counts for about in found]
    printed = any(table.layout.printed for table in spec.tables)
    # Without figures and printed numbers, no paper is involved.
    papers = bool(figures) or not tables or printed
    groups = runs.groups(made)
    group_of = {run.folder: group for group in groups for run in group.runs}
    commit = source_code.commit()

    def way(path: str | Path) -> str:
        return Path(os.path.relpath(path, Path(out).parent)).as_posix()

    def links(entry: Texts) -> list[str]:
        return list(dict.fromkeys(group_of[folder].id for folder in entry.runs if folder in group_of))

    def files(paths: Iterable[str | Path]) -> list[tuple[str, str]]:
        ways = {Path(path).suffix: way(path) for path in paths}
        return [(name, ways[suffix]) for suffix, name in FILES.items() if suffix in ways]

    counts = sum((table.statuses for table in tables), Counter())
    fragments = [
        (table, html.fragment(table, links, files(each.files))) for table, each in zip(tables, spec.tables, strict=True)
    ]
    column, quantity, curves = next(filter(None, (plotted(table, group_of) for table in tables)), ("", "", {}))
    body = page_templates.filled(
        "report.html",
        scale=scale,
        papers=papers,
        switch=printed and scale == "preview",
        left_out=spec.left_out,
        plot=Markup(draw(quantity, curves)) if draw and curves else "",
        column=column,
        tables=fragments,
        cells=[(status, counts[status]) for status in STATUSES if counts[status]],
        red=blocks.RED,
        figures=[
            {
                **vars(figure),
                "png": png,
                "setting": as_read(figure.setting, figure.datasets, counted),
                "address": way(png) if Path(png).is_file() else None,
                "files": files([png, Path(png).with_suffix(".pdf")]),
            }
            for png, figure in figures.items()
        ],
        runs=made,
        states=Counter(run.state.split(" ")[0] for run in made),
        environments=runs.environments(made),
        settings=runs.settings(made),
        datasets=sorted({(about.description["dataset"]["name"], about.dataset_digest) for about in found}),
        groups=groups,
        way=way,
        trained=runs.days_and_machines(made),
        version=f"{__version__}{f', commit {commit}' if commit else ''}",
        configuration=yaml.safe_dump(spec.configuration, sort_keys=False, allow_unicode=True),
    )
    title = f"FlatFed report, {scale} scale" if papers else "FlatFed report"
    scripts = page_templates.script("table.js") + page_templates.script("report.js")
    page = str(page_templates.framed(title, body + scripts))
    for path in filter(os.path.isfile, figures):
        data = "data:image/png;base64," + base64.b64encode(Path(path).read_bytes()).decode("ascii")
        if len(page) + len(data) < MOST:
            page = page.replace(f'src="{escape(way(path))}"', f'src="{data}"')
    with write_whole(out, "w") as file:
        file.write(page)


def unprinted(table: TableSpec) -> TableSpec:
    """Return a table without the paper's columns, and without the notes on what the paper printed."""
    return replace(table, printed=False, notes=[note for note in table.notes if not ERRATUM.match(note)])


def plotted(table: TypesetTable, group_of: Mapping[str, runs.Group]) -> tuple[str, str, Curves] | None:
    """Return the headers, the quantity and the curves of the first column whose rows have curves."""
    for column in table.spec.columns:
        cells = ((row, table.by_column[column.id][row.id]) for row in table.spec.rows)
        # A mean over several splits has no curve.
        firsts = ((row, cell.runs[0]) for row, cell in cells if len({*map(os.path.dirname, cell.runs)}) == 1)
        groups = [(row, group_of[folder]) for row, folder in firsts if folder in group_of]
        curves = {row.id: (row.label, group.accuracies) for row, group in groups if len(group.accuracies) > 1}
        if curves:
            others = [other.headers for other in table.spec.columns]
            headers = [text for text in column.headers if any(text not in other for other in others)]
            return f"{table.spec.title}: {', '.join(headers or column.headers)}", groups[0][1].quantity, curves
    return None
