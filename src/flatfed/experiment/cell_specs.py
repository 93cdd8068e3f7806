"""The cells of a table: the sources of each, its base row, the printed number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flatfed.experiment import described, settings, tables
from flatfed.experiment.model import CellSpec, Column, Row, Run, Sources, Table
from flatfed.papers import reference
from flatfed.papers.metrics import METRICS, Metric
from flatfed.papers.reference import Printed

if TYPE_CHECKING:
    from flatfed.experiment.experiment import Experiment


def cell(experiment: Experiment, scale: str, table: Table, column: Column, row: Row) -> CellSpec:
    """Return the specification of the cell of ``row`` and ``column``."""
    name = tables.metric_of(column, row)
    metric = METRICS[name]
    base = column.base_of(row.id) if column.relative else None
    known: dict[str, Any] = {}
    if metric.needs_runs:
        known["accuracy"] = experiment.values(scale, column.protocol)["accuracy"]
    if metric.source == "given":
        known["sources"] = Sources(given=described.given(experiment, scale, column, row))
    elif column.relative is None or base is not None:
        rows = {"sources": row, "base_sources": table.entries[base]} if base else {"sources": row}
        for whose, entry in rows.items():
            known[whose] = _sources(experiment, scale, table, column, entry, metric)
        if metric.needs_runs or metric.source == "analysis":
            values = experiment.values(scale, column.protocol)
            known |= {"window": values["evaluation"]["window"], "rounds": values["rounds"]}
            known["seeds"] = tuple(dict.fromkeys(run.seed for run in known["sources"].runs))
    return CellSpec(
        table=table.id,
        column=column.id,
        row=row.id,
        scale=scale,
        metric=name,
        unit=column.unit,
        target=target(experiment, scale, column),
        relative=column.relative,
        base=base,
        paper=printed(experiment, table, column, row, name),
        compare=table.settings.get("compare", "values"),
        **known,
    )


def _runs(experiment: Experiment, scale: str, table: Table, column: Column, row: Row) -> list[Run]:
    """Return the runs of a row in a column, seed by seed, those of a seed's several splits together."""
    return [
        experiment.run(scale, column.protocol, split, row.algorithm, seed)
        for seed in experiment.seeds(scale, column.protocol, table.settings.get("seeds"))
        for split in table.trained_on[column.id, row.id]
    ]


def _sources(experiment: Experiment, scale: str, table: Table, column: Column, row: Row, metric: Metric) -> Sources:
    """Return the sources of ``metric`` for a row."""
    if metric.source == "declared":
        _, params = experiment.hyperparameters(scale, column.protocol, row.algorithm)
        return Sources(update=(row.algorithm.partition("~")[0], params))
    runs = tuple(_runs(experiment, scale, table, column, row))
    timed = runs[0] if metric.source == "timing" else None
    return Sources(runs if metric.needs_runs or metric.source == "analysis" else (), timed)


def target(experiment: Experiment, scale: str, column: Column) -> float | None:
    """Return the column's target accuracy at ``scale`` as a fraction, None where its metric has none."""
    if column.target is None:
        return None
    return settings.target(experiment.values(scale, column.protocol), column.split, column.target, column.id)


def printed(experiment: Experiment, table: Table, column: Column, row: Row, metric: str) -> Printed | None:
    """Return what the paper printed for a cell, None where it printed nothing.

    The number is looked up by what the cell is of; ``reference:`` of the column and of the row say what the printed
    table has otherwise, and their variants stand together, as in ``topology=ring;Q=4``.
    """
    if table.reference is None:
        return None
    unit = "" if column.unit == "number" else column.unit
    goal = target(experiment, "paper", column)
    what: dict[str, Any] = {"metric": METRICS[metric].printed_as, "unit": unit, "algorithm": row.algorithm or ""}
    what["target"] = "" if goal is None else 100 * goal
    if "protocol" in row.settings:
        what["dataset"] = experiment.dataset_of("paper", row.settings["protocol"])
    elif column.splits:
        what["dataset"] = experiment.dataset_of("paper", column.protocol)
        if len(column.splits) == 1:
            clients = experiment.deal("paper", column.protocol, column.split).partition["clients"]
            what |= reference.keys_of_split(experiment.catalog.splits[column.split], clients)
    what |= {**column.reference, **row.reference}
    variants = column.reference.get("variant", _relation(column, row)), row.reference.get("variant")
    what["variant"] = ";".join(filter(None, variants))
    return experiment.references[table.reference].printed(what)


def _relation(column: Column, row: Row) -> str:
    """Return the variant under which the reference files keep what is relative to a base row, "" for none."""
    if column.relative is None or column.unit == "V":
        return ""
    if column.relative == "difference":
        return "vs_base_method"
    return f"{'speedup_vs' if column.relative == 'speedup' else 'relative_to'}_{column.base_of(row.id)}"
