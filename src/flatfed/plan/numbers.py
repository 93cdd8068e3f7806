"""The list of numbers that a table needs."""

from __future__ import annotations

import itertools
from dataclasses import replace

from flatfed import algorithms as registry
from flatfed.plan import lookup, protocols
from flatfed.plan.catalog import Catalog
from flatfed.plan.experiment import Experiment
from flatfed.plan.metrics import DEFAULT_ACCURACY, METRICS, Reading
from flatfed.plan.number import Number
from flatfed.plan.reference import FLAG, Printed, keys_of_split
from flatfed.plan.tables import Column, Row, Table
from flatfed.plan.units import RELATIVES
from flatfed.runs.paths import RunIds
from flatfed.runs.run import HESSIAN, Run


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
    base = table.rows.get(column.base_of(row.id)) if column.relative else None
    paper = printed(experiment, table, column, row)
    settings = catalog.settings(scale, column.protocol) if column.protocol else None
    target = protocols.target(settings, column.split, column.target, column.id) if column.target else None
    number = Number(
        table=table.id,
        column=column.id,
        row=row.id,
        scale=scale,
        metric=column.metric_of(row),
        unit=column.unit,
        relative=column.relative,
        base=base.id if base else None,
        target=target,
        accuracy=settings.accuracy if metric.needs_runs else DEFAULT_ACCURACY,
        paper=paper,
        compare=document.compare,
        tolerance=document.tolerance and (document.tolerance.agrees, document.tolerance.near),
        judged=not (paper and set(FLAG.findall(paper.note or "")) & set(document.not_judged)),
    )
    if metric.source == "config":
        return [replace(number, value=(_fact if column.metric else _searched)(catalog, scale, column, row))]
    if column.relative and base is None:
        return [number]
    if metric.source == "declared":
        built = [part and catalog.build(scale, column.protocol, part.algorithm) for part in (row, base)]
        values = [algorithm and metric.function(Reading(algorithm=algorithm)) for algorithm in built]
        return [replace(number, value=values[0], base_value=values[1])]

    analysis = HESSIAN if metric.source == "analysis" else ""

    def ids(part: Row | None, seed: int) -> list[RunIds]:
        splits = table.trained_on[column.id, part.id] if part else ()
        return [RunIds(scale, column.protocol, split, part.algorithm, seed) for split in splits]

    def runs(part: Row | None, seed: int) -> tuple[Run, ...]:
        return tuple(experiment.shown(of_run, analysis) for of_run in ids(part, seed))

    seeds = experiment.seeds(scale, column.protocol, document.seeds)
    if metric.source == "timing":  # all seeds share the file
        first = (ids(part, seeds[0])[:1] for part in (row, base))
        timed, base_timed = (experiment.resolved(*of_part) if of_part else None for of_part in first)
        number = replace(number, timed=timed, base_timed=base_timed)
        if not metric.needs_runs:
            return [number]
    evaluation = settings.evaluation.model_dump(include={"window", "smoothing"})
    number = replace(number, rounds=settings.rounds, **evaluation)
    return [replace(number, seed=seed, runs=runs(row, seed), base_runs=runs(base, seed)) for seed in seeds]


def _fact(catalog: Catalog, scale: str, column: Column, row: Row) -> float | None:
    """Return a fact of a dataset; None if it does not apply."""
    protocol, split = row.entry.protocol, column.group.split
    if column.metric == "clients":
        return split and catalog.split_settings(scale, protocol, split).partition.clients
    dataset = catalog.dataset(scale, protocol)
    facts = dict(zip(("image_channels", "image_height", "image_width"), dataset.shape, strict=True))
    facts |= {"train_samples": dataset.train, "test_samples": dataset.test, "classes": dataset.classes}
    facts |= {"total_samples": dataset.train + dataset.test, "domains": len(dataset.domains or []) or None}
    return facts[column.metric]


def _searched(catalog: Catalog, scale: str, column: Column, row: Row) -> float | None:
    """Return a searched hyper-parameter; None if it does not apply."""
    algorithm, key = column.group.algorithm, row.entry.key
    if key not in registry.load(algorithm).parameters() and key not in protocols.OWN_TRAINING:
        return None
    if column.place:
        grid = catalog.settings(scale, column.protocol).searched[algorithm].get(key, [])
        number = grid[column.place - 1] if column.place <= len(grid) else None
    else:
        training, parameters = catalog.hyperparameters(scale, column.protocol, algorithm)
        number = {**training, **parameters}.get(key)
    return 1 / number if number and row.entry.reciprocal else number


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
    fields: dict[str, float | str] = {"metric": metric.printed_as, "unit": unit, "algorithm": row.algorithm or ""}
    fields["target"] = "" if column.printed_target is None else 100 * column.printed_target
    if protocol := row.entry.protocol or (column.protocol if column.splits else None):
        fields["dataset"] = catalog.settings("paper", protocol).dataset
    if len(column.splits) == 1:
        clients = catalog.split_settings("paper", column.protocol, column.split).partition.clients
        fields |= keys_of_split(catalog.splits[column.split], clients)
    fields |= {**column.reference, **row.entry.reference}
    relation = ""  # to a base row
    if column.relative and column.unit != "V":
        relation = RELATIVES[column.relative].variant.format(base=column.base_of(row.id))
    variants = column.reference.get("variant", relation), row.entry.reference.get("variant")
    fields["variant"] = ";".join(filter(None, variants))
    return experiment.references[table.document.reference].printed(fields)


def unused(experiment: Experiment) -> list[str]:
    """Return the locations of the printed numbers that no cell uses.

    A reference file that no table names is for other comparisons (studies/sources.yaml).
    """
    tables = experiment.tables.values()
    used = {
        id(printed(experiment, table, column, row))
        for table in tables
        for column, row in itertools.product(table.columns.values(), table.rows.values())
    }
    named = dict.fromkeys(table.document.reference for table in tables if table.printed)
    files = [experiment.references[name] for name in named]
    return [file.places[key] for file in files for key, number in file.numbers.items() if id(number) not in used]
