"""The list of numbers that a table needs."""

from __future__ import annotations

import itertools
from dataclasses import replace

from flatfed.plan import lookup, protocols
from flatfed.plan.experiment import Experiment
from flatfed.plan.metrics import DEFAULT_ACCURACY, METRICS, Reading
from flatfed.plan.number import Number
from flatfed.plan.reference import Printed, keys_of_split
from flatfed.plan.tables import Column, Row, Table
from flatfed.plan.units import RELATIVES
from flatfed.runs.paths import RunIds
from flatfed.runs.run import Run


def numbers(
    experiment: Experiment, scale: str, table: str, columns: list[str] | None = None, row: str | None = None
) -> list[Number]:
    """Return the numbers of a table, cell by cell, row by row; of some ``columns`` or of one ``row`` alone.

    :raises ConfigError: an id is unknown.
    """
    layout = experiment.table_at(scale, table, columns)
    rows = layout.rows.values() if row is None else [lookup.entry("row", row, layout.rows, f"table {table}")]
    pairs = itertools.product(rows, layout.columns.values())
    return [number for row, column in pairs for number in _of_cell(experiment, scale, layout, column, row)]


def _of_cell(experiment: Experiment, scale: str, table: Table, column: Column, row: Row) -> list[Number]:
    """Return the numbers of a cell: one per seed, or one that does not depend on seeds."""
    catalog, document, metric = experiment.catalog, table.document, METRICS[column.metric_of(row)]
    base = table.rows.get(column.base_of(row.algorithm)) if column.relative else None
    settings = catalog.settings(scale, column.protocol)
    target = protocols.target(settings, column.split, column.target, column.id) if column.target else None
    number = Number(
        table=table.id,
        column=column.id,
        row=row.algorithm,
        scale=scale,
        metric=column.metric_of(row),
        relative=column.relative,
        base=base.algorithm if base else None,
        target=target,
        accuracy=settings.accuracy if metric.needs_runs else DEFAULT_ACCURACY,
    )
    if column.relative and base is None:
        return [number]
    if metric.source == "declared":
        built = [part and catalog.build(scale, column.protocol, part.algorithm) for part in (row, base)]
        values = [algorithm and metric.function(Reading(algorithm=algorithm)) for algorithm in built]
        return [replace(number, value=values[0], base_value=values[1])]

    def ids(part: Row | None, seed: int) -> list[RunIds]:
        splits = table.trained_on[column.id, part.algorithm] if part else ()
        return [RunIds(scale, column.protocol, split, part.algorithm, seed) for split in splits]

    def runs(part: Row | None, seed: int) -> tuple[Run, ...]:
        return tuple(experiment.shown(of_run, metric.analysis) for of_run in ids(part, seed))

    seeds = experiment.seeds(scale, column.protocol, document.seeds)
    if metric.source == "timing":  # all seeds share the file
        first = (ids(part, seeds[0])[:1] for part in (row, base))
        timed, base_timed = (experiment.resolved(*of_part) if of_part else None for of_part in first)
        number = replace(number, timed=timed, base_timed=base_timed)
        if not metric.needs_runs:
            return [number]
    evaluation = settings.evaluation.model_dump(include={"window", "smoothing"} if metric.needs_runs else set())
    number = replace(number, rounds=settings.rounds, **evaluation)
    return [replace(number, seed=seed, runs=runs(row, seed), base_runs=runs(base, seed)) for seed in seeds]


def printed(experiment: Experiment, table: Table, column: Column, row: Row) -> Printed | None:
    """Return the printed number of a cell, or None.

    ``reference:`` of the column and the row override the cell's metric, dataset, partition and algorithm. FlatFed joins
    their variants, as in ``topology=ring;Q=4``.
    """
    if not table.printed:
        return None
    catalog = experiment.catalog
    unit = "" if column.unit == "number" else column.unit
    metric = METRICS[column.metric_of(row)]
    fields: dict[str, float | str] = {"metric": metric.printed_as, "unit": unit, "algorithm": row.algorithm}
    fields["target"] = "" if column.printed_target is None else 100 * column.printed_target
    if column.splits:
        fields["dataset"] = catalog.settings("paper", column.protocol).dataset
    if len(column.splits) == 1:
        clients = catalog.split_settings("paper", column.protocol, column.split).partition.clients
        fields |= keys_of_split(catalog.splits[column.split], clients)
    reference = column.group.reference
    fields |= {**reference, **row.reference}
    relation = ""  # to a base row
    if column.relative and column.unit != "V":
        relation = RELATIVES[column.relative].variant.format(base=column.base_of(row.algorithm))
    variants = reference.get("variant", relation), row.reference.get("variant")
    fields["variant"] = ";".join(filter(None, variants))
    return experiment.references[table.document.reference].printed(fields)


def paper(experiment: Experiment, table: Table) -> dict[tuple[str, str], Printed]:
    """Return (column, row) -> printed number of the cells that have one."""
    pairs = itertools.product(table.columns.values(), table.rows.values())
    cells = {(column.id, row.algorithm): printed(experiment, table, column, row) for column, row in pairs}
    return {ids: number for ids, number in cells.items() if number is not None}


def unused(experiment: Experiment) -> list[str]:
    """Return the locations of the printed numbers that no cell uses.

    A reference file that no table names is for other comparisons (studies/sources.yaml).
    """
    tables = experiment.tables.values()
    used = {id(number) for table in tables for number in paper(experiment, table).values()}
    named = dict.fromkeys(table.document.reference for table in tables if table.printed)
    files = [experiment.references[name] for name in named]
    return [file.places[key] for file in files for key, number in file.numbers.items() if id(number) not in used]
