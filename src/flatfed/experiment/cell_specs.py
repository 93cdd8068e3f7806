"""The specifications of cells: sources, base rows and printed numbers."""

from __future__ import annotations

import itertools
from typing import Any

from flatfed.experiment import descriptive_tables, lookup, protocols, run_specs, scales, tables
from flatfed.experiment.catalog import Catalog
from flatfed.experiment.experiment import Experiment
from flatfed.experiment.model import CellSpec, Column, Row, Sources, Table
from flatfed.papers.metrics import METRICS, Metric
from flatfed.papers.reference import FLAG, Printed, Reference, keys_of_split
from flatfed.runs.paths import RunIds


def cells(experiment: Experiment, scale: str, table: str, columns: list[str] | None = None) -> list[CellSpec]:
    """Return the specifications of a table's cells, row by row; ConfigError for an unknown id."""
    layout, chosen = scales.table(experiment, scale, table, columns)
    return [_cell(experiment, scale, layout, column, row) for row in layout.entries.values() for column in chosen]


def cell(experiment: Experiment, scale: str, table: str, column: str, row: str) -> CellSpec:
    """Return the specification of a cell; ConfigError for an unknown id."""
    layout, [chosen] = scales.table(experiment, scale, table, [column])
    return _cell(experiment, scale, layout, chosen, lookup.entry("row", row, layout.entries, f"table {table}"))


def _cell(experiment: Experiment, scale: str, table: Table, column: Column, row: Row) -> CellSpec:
    catalog = experiment.catalog
    name = tables.metric_of(column, row)
    metric = METRICS[name]
    base = column.base_of(row.id) if column.relative else None
    content: dict[str, Any] = {}
    if metric.needs_runs:
        content["accuracy"] = catalog.settings(scale, column.protocol).accuracy
    if metric.source == "config":
        content["sources"] = Sources(given=descriptive_tables.cell_number(catalog, scale, column, row))
    elif column.relative is None or base is not None:
        content["sources"] = _sources(experiment, scale, table, column, row, metric)
        if base:
            content["base_sources"] = _sources(experiment, scale, table, column, table.entries[base], metric)
        if metric.needs_runs or metric.source == "analysis":
            settings = catalog.settings(scale, column.protocol)
            content |= settings.evaluation.model_dump(include={"window", "smoothing"})
            content["rounds"] = settings.rounds
            content["seeds"] = tuple(dict.fromkeys(run.seed for run in content["sources"].runs))
    paper = printed(catalog, experiment.references.get(table.reference), column, row, name)
    tolerance = table.settings.get("tolerance")
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
        paper=paper,
        compare=table.settings.get("compare", "values"),
        tolerance=tolerance and (tolerance["agrees"], tolerance["near"]),
        judged=not (paper and set(FLAG.findall(paper.note or "")) & set(table.settings.get("not_judged", ()))),
        **content,
    )


def _sources(experiment: Experiment, scale: str, table: Table, column: Column, row: Row, metric: Metric) -> Sources:
    if metric.source == "declared":
        _, params = experiment.catalog.hyperparameters(scale, column.protocol, row.algorithm)
        return Sources(update=(row.algorithm.partition("~")[0], params))
    runs = tuple(
        run_specs.resolved(experiment, RunIds(scale, column.protocol, split, row.algorithm, seed))
        for seed in run_specs.seeds(experiment, scale, column.protocol, table.settings.get("seeds"))
        for split in table.trained_on[column.id, row.id]
    )
    timed = runs[0] if metric.source == "timing" else None
    return Sources(runs if metric.needs_runs or metric.source == "analysis" else (), timed)


def target(catalog: Catalog, scale: str, column: Column) -> float | None:
    """Return the column's target accuracy at ``scale`` as a fraction, or None."""
    if column.target is None:
        return None
    return protocols.target(catalog.settings(scale, column.protocol), column.split, column.target, column.id)


def printed(catalog: Catalog, reference: Reference | None, column: Column, row: Row, metric: str) -> Printed | None:
    """Return the printed number of a cell, or None.

    ``reference:`` of the column and the row override the cell's metric, dataset, partition and algorithm. FlatFed joins
    their variants, as in ``topology=ring;Q=4``.
    """
    if reference is None:
        return None
    unit = "" if column.unit == "number" else column.unit
    goal = target(catalog, "paper", column)
    fields: dict[str, Any] = {"metric": METRICS[metric].printed_as, "unit": unit, "algorithm": row.algorithm or ""}
    fields["target"] = "" if goal is None else 100 * goal
    if "protocol" in row.settings:
        fields["dataset"] = catalog.settings("paper", row.settings["protocol"]).dataset
    elif column.splits:
        fields["dataset"] = catalog.settings("paper", column.protocol).dataset
        if len(column.splits) == 1:
            clients = catalog.split_settings("paper", column.protocol, column.split).partition["clients"]
            fields |= keys_of_split(catalog.splits[column.split], clients)
    fields |= {**column.reference, **row.reference}
    variants = column.reference.get("variant", _relation(column, row)), row.reference.get("variant")
    fields["variant"] = ";".join(filter(None, variants))
    return reference.printed(fields)


def unused(experiment: Experiment) -> list[str]:
    """Return the locations of the printed numbers that no cell uses.

    A reference file that no table names is for other comparisons (studies/sources.yaml).
    """
    references = experiment.references
    used = {
        id(printed(experiment.catalog, references.get(table.reference), column, row, tables.metric_of(column, row)))
        for table in experiment.tables.values()
        for column, row in itertools.product(table.columns.values(), table.entries.values())
    }
    named = [references[name] for name in {table.reference: None for table in experiment.tables.values()} if name]
    return [file.places[key] for file in named for key, number in file.numbers.items() if id(number) not in used]


def _relation(column: Column, row: Row) -> str:
    """Return the reference files' variant for numbers relative to a base row, or ""."""
    if column.relative is None or column.unit == "V":
        return ""
    base = column.base_of(row.id)
    names = {"difference": "vs_base_method", "speedup": f"speedup_vs_{base}", "ratio": f"relative_to_{base}"}
    return names[column.relative]
