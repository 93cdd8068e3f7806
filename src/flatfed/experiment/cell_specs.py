"""The cells of a table: their sources, base rows and printed numbers."""

from __future__ import annotations

from typing import Any

from flatfed.experiment import described, known, run_specs, scales, settings, tables
from flatfed.experiment.catalog import Catalog
from flatfed.experiment.experiment import Experiment
from flatfed.experiment.model import CellSpec, Column, Row, Run, Sources, Table
from flatfed.papers.metrics import METRICS, Metric
from flatfed.papers.reference import Printed, Reference, keys_of_split
from flatfed.runs.paths import RunIds


def cells(experiment: Experiment, scale: str, table: str, columns: list[str] | None = None) -> list[CellSpec]:
    """Return the specifications of the cells of a table, or of some of its columns, row by row.

    :raises ConfigError: no such scale, table or column.
    """
    layout, chosen = scales.table(experiment, scale, table, columns)
    return [_cell(experiment, scale, layout, column, row) for row in layout.entries.values() for column in chosen]


def cell(experiment: Experiment, scale: str, table: str, column: str, row: str) -> CellSpec:
    """Return the specification of a cell.

    :raises ConfigError: no such scale, table, column or row.
    """
    layout, [chosen] = scales.table(experiment, scale, table, [column])
    return _cell(experiment, scale, layout, chosen, known.look_up("row", row, layout.entries, f"table {table}"))


def table_runs(experiment: Experiment, scale: str, table: str, columns: list[str] | None = None) -> list[Run]:
    """Return the runs of a table, or of some of its columns, each once."""
    return list({run.path: run for cell in cells(experiment, scale, table, columns) for run in cell.runs}.values())


def _cell(experiment: Experiment, scale: str, table: Table, column: Column, row: Row) -> CellSpec:
    """Return the specification of the cell of ``row`` and ``column``."""
    catalog = experiment.catalog
    name = tables.metric_of(column, row)
    metric = METRICS[name]
    base = column.base_of(row.id) if column.relative else None
    content: dict[str, Any] = {}
    if metric.needs_runs:
        content["accuracy"] = catalog.values(scale, column.protocol)["accuracy"]
    if metric.source == "given":
        content["sources"] = Sources(given=described.given(catalog, scale, column, row))
    elif column.relative is None or base is not None:
        content["sources"] = _sources(experiment, scale, table, column, row, metric)
        if base:
            content["base_sources"] = _sources(experiment, scale, table, column, table.entries[base], metric)
        if metric.needs_runs or metric.source == "analysis":
            values = catalog.values(scale, column.protocol)
            content |= {"window": values["evaluation"]["window"], "rounds": values["rounds"]}
            content["seeds"] = tuple(dict.fromkeys(run.seed for run in content["sources"].runs))
    return CellSpec(
        table=table.id,
        column=column.id,
        row=row.id,
        scale=scale,
        metric=name,
        unit=column.unit,
        target=target(catalog, scale, column),
        relative=column.relative,
        base=base,
        paper=printed(catalog, experiment.references.get(table.reference), column, row, name),
        compare=table.settings.get("compare", "values"),
        **content,
    )


def _runs(experiment: Experiment, scale: str, table: Table, column: Column, row: Row) -> list[Run]:
    """Return the runs of a row in a column, ordered by seed, then by split."""
    return [
        run_specs.resolved(experiment, RunIds(scale, column.protocol, split, row.algorithm, seed))
        for seed in run_specs.seeds(experiment, scale, column.protocol, table.settings.get("seeds"))
        for split in table.trained_on[column.id, row.id]
    ]


def _sources(experiment: Experiment, scale: str, table: Table, column: Column, row: Row, metric: Metric) -> Sources:
    """Return the sources of ``metric`` for a row."""
    if metric.source == "declared":
        _, params = experiment.catalog.hyperparameters(scale, column.protocol, row.algorithm)
        return Sources(update=(row.algorithm.partition("~")[0], params))
    runs = tuple(_runs(experiment, scale, table, column, row))
    timed = runs[0] if metric.source == "timing" else None
    return Sources(runs if metric.needs_runs or metric.source == "analysis" else (), timed)


def target(catalog: Catalog, scale: str, column: Column) -> float | None:
    """Return the column's target accuracy at ``scale`` as a fraction, None if its metric has no target."""
    if column.target is None:
        return None
    return settings.target(catalog.values(scale, column.protocol), column.split, column.target, column.id)


def printed(
    catalog: Catalog, reference: Reference | None, column: Column, row: Row, metric: str
) -> Printed | None:
    """Return the printed number of a cell, or None.

    The keys are the cell's metric, dataset, partition and algorithm. ``reference:`` of the column and the row override
    them; their variants are joined, as in ``topology=ring;Q=4``.
    """
    if reference is None:
        return None
    unit = "" if column.unit == "number" else column.unit
    goal = target(catalog, "paper", column)
    fields: dict[str, Any] = {"metric": METRICS[metric].printed_as, "unit": unit, "algorithm": row.algorithm or ""}
    fields["target"] = "" if goal is None else 100 * goal
    if "protocol" in row.settings:
        fields["dataset"] = catalog.values("paper", row.settings["protocol"])["dataset"]
    elif column.splits:
        fields["dataset"] = catalog.values("paper", column.protocol)["dataset"]
        if len(column.splits) == 1:
            clients = catalog.deal("paper", column.protocol, column.split).partition["clients"]
            fields |= keys_of_split(catalog.splits[column.split], clients)
    fields |= {**column.reference, **row.reference}
    variants = column.reference.get("variant", _relation(column, row)), row.reference.get("variant")
    fields["variant"] = ";".join(filter(None, variants))
    return reference.printed(fields)


def _relation(column: Column, row: Row) -> str:
    """Return the variant of numbers relative to a base row in the reference files, or ""."""
    if column.relative is None or column.unit == "V":
        return ""
    base = column.base_of(row.id)
    names = {"difference": "vs_base_method", "speedup": f"speedup_vs_{base}", "ratio": f"relative_to_{base}"}
    return names[column.relative]
