"""The notes under a table on what its numbers may lack: runs, seeds, one precision and code, a rule of their own."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from flatfed import algorithms as registry
from flatfed.data.partition import repetition_text
from flatfed.plan.tables import Column
from flatfed.plan.units import plural
from flatfed.runs.paths import without_label
from flatfed.tables.cells import Cell, FilledTable
from flatfed.tables.readings import rounding
from flatfed.tables.set_up import grouped

#: Mark of a number of runs in another precision than that of the column's protocol.
OTHER_PRECISION = "†"


def gather(table: FilledTable) -> list[str]:
    """Return the notes of a table."""
    settings = {record.name: rounding(record) for cell in table.cells for record in cell.records}
    return [
        *_absences(table),
        *_seeds(table),
        *_precisions(table),
        *equal_rows(table),
        *_remarks(table),
        *repetitions(table.cells),
        *roundings(settings),
        *outdated(table.cells),
    ]


def _absences(table: FilledTable) -> list[str]:
    words = {"missing": "missing", "diverged": "diverged (a run ended in non-finite numbers)"}
    counts = table.statuses
    texts = [f"{counts[status]} {text}" for status, text in words.items() if counts[status]]
    return [f"Of {counts.total()} cells: {', '.join(texts)}."] if texts else []


def _seeds(table: FilledTable) -> Iterator[str]:
    """Yield the note on the seeds of the numbers, and on the requested seeds that cells lack."""
    cells = [(row.label, cell) for _, row, cell in table.labelled_cells if cell.runs]
    present = {seed for _, cell in cells for seed in cell.seeds if seed not in cell.absent}
    lacking: dict[int, list[str]] = defaultdict(list)
    for label, cell in cells:
        for seed in {*table.shown.seeds[cell.column]} - ({*cell.seeds} - {*cell.absent}):
            lacking[seed].append(label)
    if cells:
        note = f"Seeds: {', '.join(map(str, sorted(present))) or 'none'}"
        texts = [f"seed {seed} in {len(rows)} of {len(cells)} cells" for seed, rows in sorted(lacking.items())]
        yield f"{note}; missing: {', '.join(texts)}." if texts else f"{note}."


def other_precision(column: Column, cell: Cell) -> str:
    """Return the precision and device, "bfloat16 on cpu", of runs of a variant of the column's protocol, or "".

    A cell with a missing run has no number to mark.
    """
    records = [] if cell.status == "missing" else cell.records
    variants = [record for record in records if record.config.protocol != column.protocol]
    return " and ".join(sorted({f"{record.precision} on {record.device}" for record in variants}))


def _precisions(table: FilledTable) -> Iterator[str]:
    """Yield the note on the numbers marked :data:`OTHER_PRECISION`."""
    rows = grouped((other_precision(column, cell), row.label) for column, row, cell in table.labelled_cells)
    if texts := [f"{', '.join(labels)}: {words}" for words, labels in rows.items() if words]:
        yield f"{OTHER_PRECISION}: not in the precision of the other rows. {'; '.join(texts)}."


def equal_rows(table: FilledTable) -> Iterator[str]:
    """Yield the note on rows that measured the same in all rounds of a seed."""
    rows: dict[tuple[str, str, str], dict[str, str]] = defaultdict(dict)
    for _, row, cell in table.labelled_cells:
        for run in (run for run in cell.readings[: len(cell.runs)] if run.lines):
            ids = run.record.config.ids
            rows[ids.split, f"seed{ids.seed}", run.lines].setdefault(ids.name, row.label)
    labels = ((dict.fromkeys(runs.values()), seed) for (_, seed, _), runs in rows.items())
    seeds = grouped((" and ".join(names), seed) for names, seed in labels if len(names) > 1)
    if texts := [f"{names} ({', '.join(of_names)})" for names, of_names in seeds.items()]:
        yield f"Equal in all rounds of a seed, as one method under two names: {'; '.join(texts)}."


def _remarks(table: FilledTable) -> Iterator[str]:
    """Yield a line per declaration without effect in a user's file of an algorithm."""
    names = {row.label: without_label(row.algorithm) for row in table.shown.rows.values()}
    own = [(label, name) for label, name in names.items() if registry.own_file(name)]
    labels = grouped((remark, label) for label, name in own for remark in registry.remarks(name))
    yield from (f"{', '.join(rows)}: {remark}." for remark, rows in labels.items())


def repetitions(cells: list[Cell]) -> list[str]:
    """Return a note on the splits whose clients use an image many times."""
    counts: dict[str, dict[str, int]] = {}
    for record in (record for cell in cells for record in cell.records if record.repetition):
        ids = record.config.ids
        split = f"{ids.split} of {ids.protocol}"
        counts[split] = max(counts.get(split, record.repetition), record.repetition, key=lambda found: found["uses"])
    texts = [f"{split}: {repetition_text(found)}" for split, found in counts.items()]
    return [f"Small classes repeat images. {'. '.join(texts)}."] if texts else []


def roundings(settings: Mapping[str, Sequence[str | None]]) -> list[str]:
    """Return a note on ``settings`` of runs that affect rounding (:func:`flatfed.tables.readings.rounding`)."""
    differ = [len({*parts} - {None}) > 1 for parts in zip(*settings.values(), strict=True)]
    if not any(differ):
        return []
    runs = Counter(tuple(itertools.compress(parts, differ)) for parts in settings.values())
    texts = [f"{plural(n, 'run')}: {', '.join(filter(None, way)) or 'not recorded'}" for way, n in runs.items()]
    return [f"The runs differ in settings that affect rounding: {'; '.join(texts)}."]


def outdated(cells: list[Cell]) -> list[str]:
    """Return a note on the runs of other code than the present, or of unknown code."""
    counts = Counter({run: text for cell in cells for run, text in cell.outdated.items()}.values())
    texts = [f"{plural(n, 'run')}: {text}" for text, n in counts.items()]
    return [f"Of other or unknown code (the .csv names the runs): {'; '.join(texts)}."] if texts else []
