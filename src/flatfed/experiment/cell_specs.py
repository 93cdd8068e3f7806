"""The cells of a table: the sources of each, its base row, the printed number."""

from __future__ import annotations

from typing import Any

from flatfed.experiment import described, known, run_specs, scales, settings, tables
from flatfed.experiment.catalog import Catalog
from flatfed.experiment.experiment import Experiment
from flatfed.experiment.model import CellSpec, Column, Row, Run, Sources, Table
from flatfed.papers.metrics import METRICS, Metric
from flatfed.papers.reference import Printed, Reference, keys_of_split
from flatfed.runs.places import RunIds


def cells(experiment: Experiment, scale: str, table: str, columns: list[str] | None = None) -> list[CellSpec]:
    """Return the specifications of the cells of a table, or of some of its columns, row by row.

    :raises ConfigError: no such scale, table or column.
    """
    found, chosen = scales.table(experiment, scale, table, columns)
    return [_cell(experiment, scale, found, column, row) for row in found.entries.values() for column in chosen]


def cell(experiment: Experiment, scale: str, table: str, column: str, row: str) -> CellSpec:
    """Return the specification of a cell.

    :raises ConfigError: no such scale, table, column or row.
    """
    found, [chosen] = scales.table(experiment, scale, table, [column])
    return _cell(experiment, scale, found, chosen, known.look_up("row", row, found.entries, f"table {table}"))


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
    """Return the runs of a row in a column, seed by seed, those of a seed's several splits together."""
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
    """Return the column's target accuracy at ``scale`` as a fraction, None where its metric has none."""
    if column.target is None:
        return None
    return settings.target(catalog.values(scale, column.protocol), column.split, column.target, column.id)


def printed(
    catalog: Catalog, reference: Reference | None, column: Column, row: Row, metric: str
) -> Printed | None:
    """Return what the paper printed for a cell, None where it printed nothing.

    The number is looked up by what the cell is of; ``reference:`` of the column and of the row say what the printed
    table has otherwise, and their variants stand together, as in ``topology=ring;Q=4``.
    """
    if reference is None:
        return None
    unit = "" if column.unit == "number" else column.unit
    goal = target(catalog, "paper", column)
    what: dict[str, Any] = {"metric": METRICS[metric].printed_as, "unit": unit, "algorithm": row.algorithm or ""}
    what["target"] = "" if goal is None else 100 * goal
    if "protocol" in row.settings:
        what["dataset"] = catalog.values("paper", row.settings["protocol"])["dataset"]
    elif column.splits:
        what["dataset"] = catalog.values("paper", column.protocol)["dataset"]
        if len(column.splits) == 1:
            clients = catalog.deal("paper", column.protocol, column.split).partition["clients"]
            what |= keys_of_split(catalog.splits[column.split], clients)
    what |= {**column.reference, **row.reference}
    variants = column.reference.get("variant", _relation(column, row)), row.reference.get("variant")
    what["variant"] = ";".join(filter(None, variants))
    return reference.printed(what)


def _relation(column: Column, row: Row) -> str:
    """Return the variant under which the reference files keep what is relative to a base row, "" for none."""
    if column.relative is None or column.unit == "V":
        return ""
    base = column.base_of(row.id)
    names = {"difference": "vs_base_method", "speedup": f"speedup_vs_{base}", "ratio": f"relative_to_{base}"}
    return names[column.relative]
