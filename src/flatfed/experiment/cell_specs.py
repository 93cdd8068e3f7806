"""The cells of a table: what each reads, what it is taken against, what the paper printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flatfed.experiment import described, settings, tables
from flatfed.experiment.model import Cell, Column, Row, Run, Table
from flatfed.papers import reference
from flatfed.papers.metrics import METRICS, Metric
from flatfed.papers.reference import Printed
from flatfed.runs import identity
from flatfed.specs.cell import CellSpec, Sources, Update

if TYPE_CHECKING:
    from flatfed.experiment.experiment import Experiment


def cell(experiment: Experiment, scale: str, table: Table, column: Column, row: Row) -> Cell:
    """Return the cell of ``row`` and ``column``; its ``spec`` is what ``flatfed cell`` takes."""
    name = tables.metric_of(column, row)
    metric = METRICS[name]
    base = column.base_of(row.id) if column.relative else None
    runs: dict[str, list[Run]] = {}
    known: dict[str, Any] = {}
    if metric.needs_runs:
        known["accuracy"] = experiment.values(scale, column.protocol)["accuracy"]
    if metric.source == "given":
        known["sources"] = Sources(given=described.given(experiment, scale, column, row))
    elif column.relative is None or base is not None:
        rows = {"sources": row, "base_sources": table.entries[base]} if base else {"sources": row}
        for whose, entry in rows.items():
            runs[whose] = _runs(experiment, scale, table, column, entry) if metric.source != "declared" else []
            known[whose] = _sources(experiment, scale, column, entry, metric, runs[whose])
        if metric.needs_runs or metric.source == "analysis":
            values = experiment.values(scale, column.protocol)
            known |= {"window": values["evaluation"]["window"], "rounds": values["rounds"]}
            known["seeds"] = list(dict.fromkeys(run.seed for run in runs["sources"]))
    spec = CellSpec(
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
    timed = [each[0] for each in runs.values() if each and metric.source == "timing"]
    read = [run for each in runs.values() for run in each] if spec.sources.runs else []
    inputs = [run.timing for run in timed]
    inputs += [*spec.sources.analyses, *spec.base_sources.analyses]
    inputs += [file for run in read for file in (run.partition, *run.files)]
    ids = table.id, column.id, row.id
    return Cell(
        path=experiment.places.cell(scale, *ids),
        log=experiment.places.log("cell", scale, "/".join(ids)),
        runs=list({run.path: run for run in read}.values()),
        spec=spec,
        inputs=list(dict.fromkeys(inputs)),
        timed=timed,
        analysed=metric.source == "analysis",
    )


def _runs(experiment: Experiment, scale: str, table: Table, column: Column, row: Row) -> list[Run]:
    """Return the runs of a row in a column, seed by seed, those of a seed's several splits together."""
    return [
        experiment.run(scale, column.protocol, split, row.algorithm, seed)
        for seed in experiment.seeds(scale, column.protocol, table.settings.get("seeds"))
        for split in table.trained_on[column.id, row.id]
    ]


def _sources(experiment: Experiment, scale: str, column: Column, row: Row, metric: Metric, runs: list[Run]) -> Sources:
    """Return what ``metric`` reads of a row that has these runs."""
    if metric.source == "declared":
        _, params = experiment.hyperparameters(scale, column.protocol, row.algorithm)
        return Sources(update=Update(row.algorithm.partition("~")[0], params))
    packed = identity.pack([run.description for run in runs])
    timing = runs[0].timing if metric.source == "timing" else None
    if timing and not metric.needs_runs:
        return Sources(timing=timing, descriptions=packed)
    return Sources(
        runs=[run.path for run in runs],
        descriptions=packed,
        partitions=[run.partition for run in runs],
        timing=timing,
        analyses=[run.hessian for run in runs] if metric.source == "analysis" else [],
    )


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
