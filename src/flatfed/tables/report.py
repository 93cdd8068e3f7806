"""The report of one scale: a self-contained HTML page with all tables, figures, runs and settings."""

from __future__ import annotations

import base64
import json
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
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
from flatfed.tables import blocks, set_up
from flatfed.tables.cells import Cell
from flatfed.tables.formats import html
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


@dataclass(frozen=True)
class ReportedRun:
    """One run; ``state``: "finished", "diverged in round 12", "unfinished", "missing"; ``accuracy``: the last one."""

    run: Run
    state: str
    record: RunRecord | None = None
    accuracy: float | None = None

    @property
    def anchor(self) -> str:
        """The run's id on the page."""
        return f"run/{self.run.ids.name}"


def make(spec: ShownReport, out: str | Path) -> None:
    """Write the report ``spec`` to ``out``.

    Links are relative to ``out``. The report counts and names absent cells, runs and pictures.

    :raises DataError: an existing file is damaged, or a run is not the requested one.
    """
    scale, paths = spec.scale, spec.paths
    tables = list(map(blocks.typeset, spec.tables))
    runs = [read(run) for run in spec.runs]
    records = [run.record for run in runs if run.record]
    # Without figures and printed numbers, no paper is involved.
    papers = bool(spec.figures) or not tables or any(table.document.reference != "none" for table in spec.tables)
    curves = next((figure for figure in spec.figures if figure.kind == "curves"), None)
    anchors = {run.run.in_results.path: run.anchor for run in runs}
    commit = source_code.commit()

    def address(path: str | Path) -> str:
        return Path(os.path.relpath(path, Path(out).parent)).as_posix()

    def link(cell: Cell) -> str | None:
        return next((anchors[folder] for folder in cell.runs if folder in anchors), None)

    def files(paths: Iterable[str | Path]) -> list[tuple[str, str]]:
        addresses = {Path(path).suffix: address(path) for path in paths}
        return [(name, addresses[suffix]) for suffix, name in FILES.items() if suffix in addresses]

    body = html.filled(
        "report.html",
        spec=spec,
        papers=papers,
        tables=[(table, html.fragment(table, link, files(paths.table(scale, table.id)))) for table in tables],
        statuses=sum((table.statuses for table in tables), Counter()),
        red=blocks.RED,
        curves=curves,
        figures=[figure for figure in spec.figures if figure is not curves],
        title=set_up.title,
        caption=set_up.caption,
        setting=set_up.setting,
        counts=set_up.image_counts(records),
        pictures=lambda figure: paths.figure(scale, figure.id),
        exists=os.path.isfile,
        files=files,
        runs=runs_table(runs, address),
        states=Counter(run.state.split(" ")[0] for run in runs),
        seconds=sum(record.seconds or 0.0 for record in records),
        environments=environments(records),
        settings=settings(runs),
        datasets=sorted({(record.config.dataset.name, record.dataset_digest) for record in records}),
        address=address,
        trained=days_and_chips(records),
        version=f"{__version__}{f', commit {commit}' if commit else ''}",
        configuration=yaml.safe_dump(spec.configuration, sort_keys=False, allow_unicode=True),
    )
    title = f"FlatFed report, {scale} scale" if papers else "FlatFed report"
    page = str(html.framed(title, body))
    for path in filter(os.path.isfile, (paths.figure(scale, figure.id)[0] for figure in spec.figures)):
        data = "data:image/png;base64," + base64.b64encode(Path(path).read_bytes()).decode("ascii")
        if len(page) + len(data) < MOST:
            page = page.replace(f'src="{escape(address(path))}"', f'src="{data}"')
    with write_whole(out, "w") as file:
        file.write(page)


def read(run: Run) -> ReportedRun:
    """Read a run.

    :raises DataError: run.json is damaged or of another run, or metrics.csv is damaged or changed.
    """
    record = run.read_record()
    if record is None:
        return ReportedRun(run, "missing")
    history = read_history(Path(run.path), record, ())
    accuracies = next((history[name] for name in ACCURACIES if name in history), [])
    finite = [accuracy for accuracy in accuracies if np.isfinite(accuracy)]
    state = "finished" if record.ended else "unfinished"
    if record.diverged_at is not None:
        state = f"diverged in round {record.diverged_at}"
    return ReportedRun(run, state, record, finite[-1] if finite else None)


def runs_table(runs: Iterable[ReportedRun], address: Callable[[str], str]) -> Markup:
    """Return the runs as an HTML table; ``address``: path -> link."""
    lines = []
    for run in runs:
        ids, record = run.run.ids, run.record
        name = Markup('<span id="{}">{}</span>').format(run.anchor, ids.algorithm)
        line = {"Protocol": ids.protocol, "Split": ids.split, "Algorithm": name, "Seed": ids.seed, "State": run.state}
        if record:
            done = record.rounds_done
            links = Markup('<a href="{0}/run.json">record</a>, <a href="{0}/metrics.csv">lines</a>')
            line |= {
                "Last accuracy, %": "" if run.accuracy is None else f"{100 * run.accuracy:.2f}",
                "Rounds": done,
                "Seconds": "" if record.seconds is None else f"{record.seconds:.1f}",
                "s/round": f"{record.seconds / done:.3f}" if record.seconds and done else "",
                "Peak memory, MiB": f"{record.peak_memory_bytes / 2**20:.0f}" if record.peak_memory_bytes else "",
                "Device": record.device,
                "Executor": f"{record.executor}, {record.precision}",
                "Files": links.format(address(run.run.path)),
            }
        lines.append(line)
    frame = pd.DataFrame(lines, dtype=object).fillna("")
    return Markup(frame.to_html(index=False, escape=False, border=0, formatters=dict.fromkeys(frame, escape)))


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
