"""The report of one scale: a self-contained HTML page with all tables, figures, runs and settings."""

from __future__ import annotations

import base64
import json
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from markupsafe import Markup, escape

from flatfed import __version__
from flatfed.files import write_whole
from flatfed.plan.at_scale import ShownReport
from flatfed.runs import source_code
from flatfed.runs.record import RunRecord
from flatfed.runs.run import Run
from flatfed.tables import blocks
from flatfed.tables.blocks import CellText, TypesetTable
from flatfed.tables.formats import html
from flatfed.tables.image_counts import with_counts
from flatfed.tables.readings import chip, read_history

#: Suffix of a file -> text of its link, in order.
FILES = {".csv": "CSV", ".tex": "TeX", ".md": "Markdown", ".html": "page"}
FILES |= {".png": "PNG", ".pdf": "PDF", ".txt": "notes"}

#: The most characters of the page; other pictures are linked.
MOST = 4_800_000

#: Settings that identify the run or vary with split and seed.
NOT_SETTINGS = {"format", "scale", "protocol", "split", "algorithm", "seed", "partition", "sampling", "dataset"}

#: Accuracies in metrics.csv; the report shows the first one of a run.
ACCURACIES = ("test_accuracy", "client_test_accuracy", "validation_accuracy", "train_accuracy")

#: Row id -> (label, accuracy by round and seed).
Curves = Mapping[str, tuple[str, pd.DataFrame]]


@dataclass(frozen=True)
class ReportedRun:
    """One run; ``state``: "finished", "diverged in round 12", "unfinished", "missing"; ``accuracies``: by round."""

    run: Run
    state: str
    record: RunRecord | None
    accuracies: pd.Series


@dataclass(frozen=True)
class Group:
    """The runs of one protocol, split and algorithm; ``id``: their anchor on the page."""

    id: str
    runs: list[ReportedRun]

    @property
    def seconds(self) -> float:
        """Wall seconds of all runs."""
        return sum(run.record.seconds or 0.0 for run in self.runs if run.record)

    @property
    def accuracies(self) -> pd.DataFrame:
        """The accuracies by round and seed; the columns are named after their metric."""
        shown = {run.run.seed: run.accuracies for run in self.runs if len(run.accuracies)}
        return pd.DataFrame(shown).rename_axis(columns=next((column.name for column in shown.values()), ""))


def make(spec: ShownReport, out: str | Path, draw: Callable[[str, Curves], str]) -> None:
    """Write the report ``spec`` to ``out``.

    Links are relative to ``out``. The report counts and names absent cells, runs and pictures. ``draw``
    returns HTML that plots the curves of an accuracy.

    :raises DataError: an existing file is damaged, or a run is not the requested one.
    """
    scale, paths = spec.scale, spec.paths
    tables = list(map(blocks.typeset, spec.tables))
    runs = [read(run) for run in spec.runs]
    records = [run.record for run in runs if run.record]
    counts = [record.image_counts for record in records]
    # Without figures and printed numbers, no paper is involved.
    papers = bool(spec.figures) or not tables or any(table.document.reference != "none" for table in spec.tables)
    figures = [replace(f, setting=with_counts(f.setting, f.datasets, counts)) for f in spec.figures]
    by_row: dict[str, list[ReportedRun]] = defaultdict(list)
    for run in runs:
        by_row[f"run/{run.run.row}"].append(run)
    groups = [Group(anchor, of_group) for anchor, of_group in by_row.items()]
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
        spec=spec,
        papers=papers,
        plot=Markup(draw(accuracy, curves)) if curves else "",
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
        environments=environments(records),
        settings=settings(runs),
        datasets=sorted({(record.config.dataset.name, record.dataset_digest) for record in records}),
        groups=groups,
        address=address,
        trained=days_and_chips(records),
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


def first_curves(table: TypesetTable, groups: Mapping[str, Group]) -> tuple[str, str, Curves] | None:
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


def read(run: Run) -> ReportedRun:
    """Read a run.

    :raises DataError: run.json is damaged or of another run, or metrics.csv is damaged or changed.
    """
    record = run.read_record()
    if record is None:
        return ReportedRun(run, "missing", None, pd.Series(dtype=float))
    history = read_history(Path(run.path), record, ("round",), every=True)
    name = next((name for name in ACCURACIES if name in history), "")
    accuracies = pd.Series(history.get(name), history["round"], dtype=float, name=name.replace("_", " "))
    state = "finished" if record.ended else "unfinished"
    if record.diverged_at is not None:
        state = f"diverged in round {record.diverged_at}"
    return ReportedRun(run, state, record, accuracies[np.isfinite(accuracies)])


def environments(records: Iterable[RunRecord]) -> list[tuple[str, int]]:
    """Return (machine and versions, number of runs), most first."""
    counts: Counter[str] = Counter()
    for record in records:
        host = record.host or {}
        parts = [host.get("gpu") if record.device == "cuda" else None, host.get("processor")]
        parts += [f"with {' '.join(host['instructions'])}" if host.get("instructions") else None]
        parts += [f"{name} {version}" for name, version in sorted((record.libraries or {}).items())]
        counts[", ".join(filter(None, parts))] += 1
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def days_and_chips(records: Collection[RunRecord]) -> tuple[str, str]:
    """Return the days on which runs finished, "2026-11-21 to 2026-11-22", and their chips."""
    days = sorted({record.finished[:10] for record in records if record.finished})
    chips = dict.fromkeys(filter(None, map(chip, records)))
    return " to ".join(dict.fromkeys([*days[:1], *days[-1:]])), ", ".join(chips)


def settings(runs: Iterable[ReportedRun]) -> list[tuple[str, dict[str, str], list[tuple[str, dict[str, str]]]]]:
    """Return (protocol, common settings, other settings per algorithm)."""
    protocols: dict[str, dict[str, dict[str, str]]] = defaultdict(dict)
    for run in runs:
        if run.record:
            flat = flatten(run.record.config.model_dump(exclude_defaults=True, exclude=NOT_SETTINGS))
            protocols[run.run.protocol].setdefault(run.run.algorithm, flat)
    result = []
    for protocol, algorithms in sorted(protocols.items()):
        first = next(iter(algorithms.values()))
        common = {k: v for k, v in first.items() if all(flat.get(k) == v for flat in algorithms.values())}
        special = [(name, {k: v for k, v in flat.items() if k not in common}) for name, flat in algorithms.items()]
        result.append((protocol, common, special))
    return result


def flatten(tree: dict[str, Any]) -> dict[str, str]:
    """Return the leaves of nested mappings as dotted name -> JSON text, strings unquoted."""
    (leaves,) = pd.json_normalize(tree).to_dict("records")
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in leaves.items()}
