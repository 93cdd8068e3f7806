"""The report of one scale: one self-contained HTML page with every table, every figure, and what they cost."""

from __future__ import annotations

import base64
import os
from collections import Counter
from pathlib import Path

import yaml
from markupsafe import Markup

from flatfed import __version__
from flatfed.files import write_whole
from flatfed.runs import provenance
from flatfed.runs.wanted import unpack
from flatfed.specs.pages import ReportSpec
from flatfed.tables import blocks, made_of, runs
from flatfed.tables.blocks import Entry
from flatfed.tables.formats import html
from flatfed.tables.trained_on import as_read

#: Statuses of cells in the order in which a reader asks for them.
STATUSES = ("ok", "not_reached", "diverged", "missing", "not_applicable")


def make(spec: ReportSpec, out: str | Path) -> None:
    """Write the report that ``spec`` describes to ``out``, whole.

    Files of tables, pictures and runs are linked to by their way from there; so are the papers' errata, in the folder
    above, where any table or figure is a paper's. Cells, runs and pictures that are absent are counted and named, never
    an error: a report of half the work is a report.

    :raises DataError: a file that is there is damaged.
    """
    tables = [blocks.read(table) for table in spec.tables]
    made = runs.read(unpack(spec.made_of, spec.runs).values())
    counted = [run.about.counted for run in made if run.about]
    # Of nobody's papers are tables alone that no printed numbers stand beside.
    papers = bool(spec.figures) or not tables or any(table.printed for table in tables)
    groups = {group.id: group for group in runs.groups(made)}
    days, machines = runs.days_and_machines(made)
    settings, commit = runs.settings(made), provenance.commit()

    def way(path: str | Path) -> str:
        return Path(os.path.relpath(path, Path(out).parent)).as_posix()

    def links(entry: Entry) -> list[str]:
        return [place for place in dict.fromkeys(map(runs.place, entry.runs)) if place in groups]

    counts = sum((Counter(table.counts) for table in tables), Counter())
    body = (
        html.environment()
        .get_template("report.html.j2")
        .render(
            scale=spec.scale,
            papers=papers,
            left_out=spec.left_out,
            tables=[
                (
                    table,
                    html.fragment(table, links, files(way(Path(spec_.cells).parent.parent / "tables" / table.id))),
                )
                for table, spec_ in zip(tables, spec.tables, strict=True)
            ],
            cells=[(status.replace("_", " "), counts[status]) for status in STATUSES if counts[status]],
            cell_count=counts["cells"],
            warned=[table for table in tables if table.warnings],
            figures=[
                {
                    **vars(figure),
                    "setting": as_read(figure.setting, figure.datasets, counted),
                    "data": picture(figure.png),
                    "files": [
                        (ending.upper(), way(Path(figure.png).with_suffix(f".{ending}"))) for ending in ("png", "pdf")
                    ],
                }
                for figure in spec.figures
            ],
            runs=made,
            without_sums=made_of.without_sums([run.about for run in made if run.about]),
            states=Counter(run.state.split(" ")[0] for run in made),
            seconds=runs.seconds(made),
            environments=runs.environments(made),
            settings=settings,
            shown={protocol for protocol, *_ in settings},
            datasets=sorted(
                {(run.about.description["dataset"]["name"], run.about.dataset_digest) for run in made if run.about}
            ),
            groups=groups.values(),
            way=way,
            days=days,
            machines=machines,
            version=f"{__version__}{f', commit {commit}' if commit else ''}",
            box=(runs.WIDE, runs.HIGH),
            configuration=yaml.safe_dump(spec.configuration, sort_keys=False, allow_unicode=True),
        )
    )
    frame = html.environment().get_template("page.html.j2")
    title = f"FlatFed report, {spec.scale} scale" if papers else "FlatFed report"
    with write_whole(out, "w") as file:
        scripts = html.script("table.js") + html.script("report.js")
        file.write(frame.render(title=title, style=html.style(), body=Markup(body) + scripts) + "\n")


def files(table: str) -> list[tuple[str, str]]:
    """Return (name, address) of the files of a ``table``, its own path without an ending."""
    return [("CSV", f"{table}.csv"), ("TeX", f"{table}.tex"), ("Markdown", f"{table}.md"), ("page", f"{table}.html")]


def picture(path: str | Path) -> str | None:
    """Return a PNG as a data URI, None where there is none."""
    try:
        return "data:image/png;base64," + base64.b64encode(Path(path).read_bytes()).decode("ascii")
    except FileNotFoundError:
        return None
