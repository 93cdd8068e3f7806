"""The report of one scale: one self-contained HTML page with every table, every figure, and what they cost."""

from __future__ import annotations

import base64
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import yaml

from flatfed import __version__
from flatfed.files import write_whole
from flatfed.runs import provenance
from flatfed.runs.wanted import unpack
from flatfed.specs.pages import ReportSpec
from flatfed.tables import blocks, page_templates, runs
from flatfed.tables.blocks import Entry
from flatfed.tables.formats import html
from flatfed.tables.trained_on import as_read

#: Statuses of cells in the order in which a reader asks for them.
STATUSES = ("ok", "not_reached", "diverged", "missing", "not_applicable")

#: Suffix of a file of a table or figure -> what the link to it is called, in the order of the links.
FILES = {".csv": "CSV", ".tex": "TeX", ".md": "Markdown", ".html": "page", ".png": "PNG", ".pdf": "PDF"}


def make(spec: ReportSpec, out: str | Path) -> None:
    """Write the report that ``spec`` describes to ``out``, whole.

    Files of tables, pictures and runs are linked to by their way from there; so are the papers' errata, in the folder
    above, where any table or figure is a paper's. Cells, runs and pictures that are absent are counted and named, never
    an error: a report of half the work is a report.

    :raises DataError: a file that is there is damaged.
    """
    tables = [blocks.read(table) for table in spec.tables]
    made = runs.read(spec.scale, unpack(spec.made_of, spec.runs).values())
    found = [run.about for run in made if run.about]
    counted = [about.counted for about in found]
    # Of nobody's papers are tables alone that no printed numbers stand beside.
    papers = bool(spec.figures) or not tables or any(table.spec.printed for table in tables)
    groups = runs.groups(made)
    group_of = {run.folder: group.id for group in groups for run in group.runs}
    days, machines = runs.days_and_machines(made)
    settings, commit = runs.settings(made), provenance.commit()

    def way(path: str | Path) -> str:
        return Path(os.path.relpath(path, Path(out).parent)).as_posix()

    def links(entry: Entry) -> list[str]:
        return list(dict.fromkeys(group_of[folder] for folder in entry.runs if folder in group_of))

    def files(paths: Iterable[str | Path]) -> list[tuple[str, str]]:
        ways = {Path(path).suffix: way(path) for path in paths}
        return [(name, ways[suffix]) for suffix, name in FILES.items() if suffix in ways]

    counts = sum((table.statuses for table in tables), Counter())
    body = page_templates.filled(
        "report.html",
        scale=spec.scale,
        papers=papers,
        left_out=spec.left_out,
        tables=[(table, html.fragment(table, links, files(spec.files.get(table.id, ())))) for table in tables],
        cells=[(status.replace("_", " "), counts[status]) for status in STATUSES if counts[status]],
        cell_count=counts.total(),
        warned=[table for table in tables if table.warnings],
        figures=[
            {
                **vars(figure),
                "setting": as_read(figure.setting, figure.datasets, counted),
                "data": picture(figure.png),
                "files": files([figure.png, Path(figure.png).with_suffix(".pdf")]),
            }
            for figure in spec.figures
        ],
        runs=made,
        states=Counter(run.state.split(" ")[0] for run in made),
        seconds=runs.seconds(made),
        environments=runs.environments(made),
        settings=settings,
        shown={protocol for protocol, *_ in settings},
        datasets=sorted({(about.description["dataset"]["name"], about.dataset_digest) for about in found}),
        groups=groups,
        way=way,
        days=days,
        machines=machines,
        version=f"{__version__}{f', commit {commit}' if commit else ''}",
        box=(runs.WIDE, runs.HIGH),
        configuration=yaml.safe_dump(spec.configuration, sort_keys=False, allow_unicode=True),
    )
    title = f"FlatFed report, {spec.scale} scale" if papers else "FlatFed report"
    scripts = page_templates.script("table.js") + page_templates.script("report.js")
    with write_whole(out, "w") as file:
        file.write(page_templates.framed(title, body + scripts))


def picture(path: str | Path) -> str | None:
    """Return a PNG as a data URI, None where there is none."""
    try:
        return "data:image/png;base64," + base64.b64encode(Path(path).read_bytes()).decode("ascii")
    except FileNotFoundError:
        return None
