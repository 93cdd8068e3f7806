"""``flatfed verify``: tables held against the papers'."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from flatfed.commands import configuration
from flatfed.experiment import selection
from flatfed.files import write_json
from flatfed.tables import verification
from flatfed.tables.verification import ColumnResult, TableResult

#: Exit status where --strict finds a table that does not stand.
FELL = 1


def report(
    tables: list[str],
    config: configuration.Parts,
    *,
    scale: str | None,
    point: float,
    every: bool,
    strict: bool,
    out: Path | None,
) -> int:
    """Print how the cells of ``tables`` (none: those of config.yaml) compare with the papers'; return an exit status.

    ``point`` in percentage points; ``every``: list each claim; ``out``: a JSON file to write everything to.

    :raises ConfigError: there is no such table.
    :raises DataError: a cell is damaged.
    """
    experiment = configuration.load(config)
    scale = scale or selection.scale_of(experiment, tables)
    asked = selection.named(experiment, tables) or experiment.selected(scale)
    results = []
    for name, columns in asked:
        specs = [cell.spec for cell in experiment.cells(scale, name, columns)]
        printed = {(spec["column"], spec["row"]) for spec in specs if spec["paper"]}
        results.append(verification.table(experiment.table_spec(scale, name, columns), printed, point / 100))
    for result in results:
        print("\n".join(lines(result, every)))
    if len(results) > 1:
        printed = [result for result in results if result.printed]
        print(f"\n{sum(result.stands for result in printed)} of {len(printed)} tables with printed numbers stand")
    if out is not None:
        write_json(out, [result.plain() for result in results])
    return FELL if strict and not all(result.stands for result in results if result.printed) else 0


def lines(result: TableResult, every: bool) -> Iterator[str]:
    """Yield what is said of one table, line by line."""
    name = f"{result.table}, {result.scale} scale"
    if not result.printed:
        yield f"{name}: nothing printed to compare with"
        return
    counts = {state: result.count(state) for state in ("agrees", "differs", "missing")}
    compared = counts["agrees"] + counts["differs"]
    values = f"{counts['agrees']} of {compared} cells agree, {counts['differs']} differ"
    ordered = any(column.correlation is not None or column.claims for column in result.columns)
    if not compared and counts["missing"] < result.printed:
        order = ", the order of the rows is" if ordered else ""
        values = f"values are not compared (not the paper's set-up){order}"
    yield f"{name}: {values}, {counts['missing']} missing"
    for column in result.columns:
        yield f"  {column.column}: {_column(column)}"
        missing = [cell for cell in column.cells if cell.state == "missing"]
        if missing:
            more = ", and so on" if len({cell.why for cell in missing}) > 1 else ""
            yield f"    missing  {', '.join(cell.row for cell in missing)}: {missing[0].why}{more}"
        for cell in column.cells:
            if cell.state == "differs":
                yield f"    differs  {cell.row}: ours {cell.ours}, paper {cell.paper}: {cell.why}"
        for claim in column.claims:
            if every or claim.outcome in ("not held", "reversed clearly"):
                yield f"    {claim.outcome:16} {claim.better} > {claim.worse}"
    correlation, outcomes = result.correlation(), result.outcomes()
    if correlation is None and not outcomes:
        return
    mean = "no rank correlation" if correlation is None else f"mean rank correlation {correlation:.2f}"
    yield f"  order: {mean}; {_claims(outcomes)}"


def _column(column: ColumnResult) -> str:
    compared = column.count("agrees") + column.count("differs")
    said = [f"{column.count('agrees')} of {compared} agree"] if compared else []
    if column.correlation is not None:
        said.append(f"rank correlation {column.correlation:.2f}")
    said.append(_claims(Counter(claim.outcome for claim in column.claims)))
    return "; ".join(said)


def _claims(outcomes: Counter[str]) -> str:
    """Say how many printed claims "A beats B" hold, beside what rows in an order by chance would come to."""
    tested = outcomes.total() - outcomes["untested"]
    if not tested:
        return f"none of {outcomes.total()} claims tested" if outcomes.total() else "no claims"
    held, clear, reversed_ = outcomes["held"], outcomes["held clearly"], outcomes["reversed clearly"]
    text = f"{held + clear} of {tested} claims held (chance gives {tested / 2:g}; {clear} clearly)"
    return text + (f", {reversed_} clearly reversed" if reversed_ else "")
