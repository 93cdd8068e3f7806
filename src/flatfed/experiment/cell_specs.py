"""The cells of a table: what each reads, what it is taken against, what the paper printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flatfed.experiment import settings, table_facts, tables
from flatfed.experiment.model import Cell, Column, Row, Run, Table
from flatfed.papers import reference
from flatfed.papers.metrics import METRICS, Metric
from flatfed.papers.reference import Printed
from flatfed.runs import identity

if TYPE_CHECKING:
    from flatfed.experiment.experiment import Experiment


def cell(experiment: Experiment, scale: str, table: Table, column: Column, row: Row) -> Cell:
    """Return the cell of ``row`` and ``column``; its ``spec`` is what ``flatfed cell`` takes."""
    name, unit = tables.metric_of(column, row), column.unit
    metric, number = METRICS[name], printed(experiment, table, column, row, name)
    base = column.base_of(row.id) if column.relative else None
    there = column.relative is None or base is not None
    spec: dict[str, Any] = {
        **{"table": table.id, "column": column.id, "row": row.id, "scale": scale},
        **{"metric": name, "unit": unit, "target": target(experiment, scale, column)},
        **{"window": 1, "rounds": 0, "seeds": [], "runs": [], "base_runs": []},
        "paper": number and number.plain(),
        "compare": table.settings.get("compare", "values"),
    }
    if metric.needs_runs:
        spec["accuracy"] = experiment.accuracy(scale, column.protocol)
    if column.relative:
        spec |= {"relative": column.relative, "base": base}
    runs: list[Run] = []
    timed: list[Run] = []
    inputs: list[str] = []
    if metric.source == "given":
        spec["given"] = table_facts.given(experiment, scale, column, row)
    elif there:
        entries = {"": row} | ({"base_": table.entries[base]} if base else {})
        for whose, entry in entries.items():
            more, files = _reads(experiment, scale, table, column, entry, metric, whose, spec)
            runs += more if metric.needs_runs or metric.source == "analysis" else []
            timed += more[:1] if metric.source == "timing" else []
            inputs += files
    ids = table.id, column.id, row.id
    path, log = experiment.places.cell(scale, *ids), experiment.places.log("cell", scale, "/".join(ids))
    runs = list({run.path: run for run in runs}.values())
    return Cell(path, log, runs, spec, list(dict.fromkeys(inputs)), timed, metric.source == "analysis")


def _reads(
    experiment: Experiment,
    scale: str,
    table: Table,
    column: Column,
    row: Row,
    metric: Metric,
    whose: str,
    spec: dict[str, Any],
) -> tuple[list[Run], list[str]]:
    """Enter into ``spec`` what ``metric`` reads of ``row``; return the runs and files that it needs."""
    values = experiment.catalog.protocols[column.protocol].scales[scale]
    if metric.source == "declared":
        _, params = settings.of_algorithm(values, row.algorithm, experiment.catalog.algorithms[row.algorithm])
        spec[f"{whose}update"] = {"name": row.algorithm.partition("~")[0], "params": params}
        return [], []
    splits = [tables.split_of(column, split, row, experiment.catalog, table.file) for split in column.splits]
    inputs = []
    seeds = experiment.seeds(scale, column.protocol, table.settings.get("seeds"))
    runs = [experiment.run(scale, column.protocol, split, row.algorithm, seed) for seed in seeds for split in splits]
    spec[f"{whose}descriptions"] = identity.pack([run.description for run in runs])
    if metric.source == "timing":
        spec[f"{whose}timing"] = runs[0].timing
        inputs.append(runs[0].timing)
        if not metric.needs_runs:
            return runs, inputs
    spec |= {"seeds": seeds, "window": values["evaluation"]["window"], "rounds": values["rounds"]}
    spec[f"{whose}runs"] = [run.path for run in runs]
    spec[f"{whose}partitions"] = [run.partition for run in runs]
    inputs += spec[f"{whose}partitions"]
    if metric.source == "analysis":
        spec[f"{whose}analyses"] = [run.hessian for run in runs]
        inputs += spec[f"{whose}analyses"]
    return runs, inputs + [file for run in runs for file in run.files]


def target(experiment: Experiment, scale: str, column: Column) -> float | None:
    """Return the column's target accuracy at ``scale`` as a fraction, None where its metric has none."""
    if column.target is None:
        return None
    values = experiment.catalog.protocols[column.protocol].scales[scale]
    return settings.target(values, column.split, column.target, column.id)


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
            deal = experiment.partition_spec("paper", column.protocol, column.split, 1)
            what |= reference.of_split(experiment.catalog.splits[column.split], deal["clients"])
    what |= {**column.reference, **row.reference}
    variants = [entry.reference.get("variant") for entry in (column, row)]
    if "variant" not in column.reference:
        variants[0] = _relation(column, row)
    what["variant"] = ";".join(filter(None, variants))
    return experiment.references[table.reference].printed(what)


def _relation(column: Column, row: Row) -> str | None:
    """Return the variant under which the reference files keep what is relative to a base row."""
    if column.relative is None or column.unit == "V":
        return None
    if column.relative == "difference":
        return "vs_base_method"
    return f"{'speedup_vs' if column.relative == 'speedup' else 'relative_to'}_{column.base_of(row.id)}"
