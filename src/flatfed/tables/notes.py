"""The notes under a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from flatfed.plan.at_scale import ShownTable
from flatfed.plan.metrics import DEFAULT_ACCURACY, METRICS, evaluations
from flatfed.plan.number import Number, runs_of
from flatfed.plan.tables import Column
from flatfed.plan.units import UNITS, plural
from flatfed.runs import curvature
from flatfed.tables import compare, doubts, set_up
from flatfed.tables.cells import Cell, FilledTable

#: Mark of an estimate with :func:`is_warned`.
WARNED = "⚠"


def gather(table: FilledTable) -> list[str]:
    """Return the notes of a table, in reading order."""
    shown, cells = table.shown, table.cells
    records = [record for cell in cells for record in cell.records]
    return [
        _reading(table),
        *_bold(table),
        *_symbols(cells, shown.printed),
        *definitions(cell.number for cell in cells),
        *_times(cells),
        *_errors(cells),
        *_beside(cells),
        *_negative(table),
        *_compared(table),
        *doubts.gather(table),
        *_declared(table),
        *_set_ups(shown),
        *set_up.unknown_images(shown.set_ups, records),
    ]


def _declared(table: FilledTable) -> Iterator[str]:
    """Yield the notes of config/ on the table, its rows and the paper's numbers."""
    shown = table.shown
    if len(shown.columns) < shown.declared_columns:
        yield f"Shown: {len(shown.columns)} of its {shown.declared_columns} columns."
    yield from shown.row_notes
    yield from shown.document.notes
    cited = {flag for cell in table.cells * shown.printed for flag in cell.flags}
    errata = {**shown.errata, **{flag: shown.flags[flag] for flag in cited}}
    yield from (f"{name}: {errata[name]}" for name in sorted(errata, key=lambda flag: (flag[0], int(flag[1:]))))
    if not shown.printed and shown.document.reason:
        yield f"Nothing printed to compare with: {shown.document.reason}."


def _set_ups(shown: ShownTable) -> Iterator[str]:
    """Yield the notes on metrics and settings of the runs, and on what the paper leaves open."""
    runs = list(runs_of(shown.numbers).values())
    for column in (column for column in shown.columns.values() if column.decentralised):
        rows = [row.label for row in shown.rows.values() if column.metric_of(row) == column.decentralised]
        words = [METRICS[name].words for name in (column.decentralised, column.metric)]
        peer, main = (text[0].lower() + text[1:] for text in words)
        if rows:
            yield (
                f"{column.headers[-1]}: of rows without a server ({', '.join(rows)}), {peer}; of the others, {main}. "
                "They are two quantities, so none is marked as best."
            )
    analysed = [column.metric for column in shown.columns.values() if METRICS[column.metric].source == "hessian"]
    yield from set_up.hessians(runs if analysed else (), shown.printed)
    if any(curvature.METRICS[metric].scaled for metric in analysed):
        yield set_up.SCALED
    yield from set_up.training(runs, shown.labels)
    if shown.printed:
        yield from (f"Not stated by the paper, {line}." for line in set_up.unstated(shown.set_ups, runs))
        yield from set_up.choices(runs, shown.labels)


def _reading(table: FilledTable) -> str:
    shown, cells, n = table.shown, table.cells, table.usual_n
    note = f"{_quantities(shown, cells)}{_windows(table)}."
    if n is not None:
        text = f"mean ± sample standard deviation over {n} seeds" if n > 1 else "one seed, so no spread"
        note += f" Ours: {text}" if shown.printed else f" {text[0].upper()}{text[1:]}"
        others = any(cell.value is not None and cell.n not in (n, None) for cell in cells)
        note += "; another number of seeds is in brackets." if others else "."
    if not shown.printed:
        return note
    if table.has_differences:
        points = {cell.printed_unit for cell in cells} <= {"percent", "pp"}
        return note + " Diff.: ours minus the paper's" + (", in percentage points." if points else ".")
    if shown.document.compare == "ordering":
        note += " No difference is taken: the set-up is not the paper's. Compare only the order of the rows."
    return note


def _windows(table: FilledTable) -> str:
    """Return the evaluations in an accuracy, with their columns if they differ."""
    accuracies = [(column, cell) for column, _, cell in table.labelled_cells if cell.unit == "fraction"]
    columns = set_up.grouped((evaluations(cell.number.window), _column(column)) for column, cell in accuracies)
    if len(columns) < 2:
        return "".join(f", {words}" for words in columns)
    return ": " + "; ".join(f"{words} in {' and '.join(names)}" for words, names in columns.items())


def _column(column: Column) -> str:
    return ", ".join(filter(None, (column.part, *column.headers)))


def _quantities(shown: ShownTable, cells: list[Cell]) -> str:
    quantity = shown.document.quantity
    metrics = dict.fromkeys((cell.metric.words, UNITS[cell.printed_unit].words) for cell in cells)
    units = {unit for _, unit in metrics}
    if quantity and len(units) == 1:
        return quantity + units.pop()
    first, *others = [words + unit for words, unit in metrics if unit or not quantity]
    text = "; ".join([first, *(other[0].lower() + other[1:] for other in others)])
    return f"{quantity} ({text[0].lower()}{text[1:]})" if quantity else text


def _symbols(cells: list[Cell], printed: bool) -> Iterator[str]:
    if late := [cell for cell in cells if cell.status == "not_reached"]:
        rounds = "/".join(map(str, sorted({cell.rounds for cell in late})))
        symbols = {f">{rounds}" if cell.printed_unit == "rounds" else "not reached" for cell in late}
        base = " of the row or of its base row" if any(cell.number.relative for cell in late) else ""
        some = any(not cell.reached.startswith("0/") for cell in late)
        note = f"{' or '.join(sorted(symbols))}: the target was not reached by every seed{base} within {rounds} rounds"
        yield note + ("; the number of seeds that did is in brackets." if some else ".")
    unfinished = {cell.metric.needs_target for cell in cells if cell.status == "unfinished"}
    if True in unfinished:
        yield (
            "Some runs are unfinished. Targets that they reached count; > precedes the rounds of a run that has not "
            "reached its target yet."
        )
    if False in unfinished:
        yield "Round N: the run has completed N rounds; the number is of the final round."
    if printed and any(map(compare.not_reached, cells)):
        yield "–: printed by the paper for a target not reached."
    if relative := [cell for cell in cells if cell.number.relative]:
        bases = ", ".join(dict.fromkeys(cell.number.base for cell in relative if cell.number.base))
        seeds = ": compared seed by seed, then averaged" if any(cell.n for cell in relative) else ""
        yield f"Relative to a base row ({bases}){seeds}."
    if printed and any(compare.spread_over_seeds(cell) != cell.paper[1] for cell in cells):
        yield "The paper's deviations are over clients and omitted: ours are over seeds."


def definitions(numbers: Iterable[Number]) -> Iterator[str]:
    """Yield the definitions of the metrics of ``numbers``, and of reaching a target."""
    metrics = [(number, METRICS[number.metric]) for number in numbers]
    yield from filter(None, dict.fromkeys(metric.defined for _, metric in metrics))
    targeted = [number for number, metric in metrics if metric.needs_target]
    accuracies = dict.fromkeys(number.accuracy for number in targeted)
    if unusual := ", ".join(METRICS[name].words for name in accuracies if name != DEFAULT_ACCURACY):
        yield f"The accuracy of targets: {unusual.lower()}."
    for width in dict.fromkeys(number.smoothing for number in targeted):
        accuracy = "accuracy, unsmoothed," if width == 1 else f"centred mean accuracy of {width} evaluated rounds"
        yield f"A target counts as reached in the first round whose {accuracy} is at or above it."


def _times(cells: list[Cell]) -> Iterator[str]:
    times = [cell for cell in cells if compare.is_time(cell)]
    if machines := sorted({machine for cell in times for machine in cell.timed}):
        yield f"Timed on {'; '.join(machines)}."
    if any(cell.n and cell.n > 1 for cell in times):
        yield "A round is timed once for all seeds: the deviation of a time is that of its number of rounds."
    if busy := _cautioned(times):
        yield f"In {busy} cells with times the machine was busy, so they are too long; see the .csv."


def _cautioned(cells: list[Cell]) -> str:
    """Return how many ``cells`` have a warning that is not about the code of a run, "1 of 4", or ""."""
    cautioned = sum(len(cell.warnings) > len(cell.outdated) for cell in cells)
    return f"{cautioned} of {len(cells)}" if cautioned else ""


def _bold(table: FilledTable) -> Iterator[str]:
    """Yield the note on the best rows."""
    if any(map(compare.best_rows, table.by_column.values())):
        yield f"Bold: best mean of its column, over {plural(table.usual_n, 'seed')}."


def _beside(cells: list[Cell]) -> Iterator[str]:
    estimated = [cell for cell in cells if cell.beside]
    if not estimated:
        return
    tools = "/".join(sorted({cell.beside.by for cell in estimated}))
    several = any(len(cell.seeds) > 1 for cell in estimated)
    seeds = ", mean ± sample standard deviation over the same seeds" if several else ""
    yield (
        f"{tools}: its estimate at the same models, on the same images{seeds}. {WARNED}: the means differ by more than "
        f"the errors of both allow ({sum(map(is_warned, estimated))} of {len(estimated)} cells). The error of an "
        "eigenvalue λ with vector v is the sum of both residuals ‖Hv − λv‖, that of a trace three standard errors "
        "of the difference; both are means over seeds."
    )


def _errors(cells: list[Cell]) -> Iterator[str]:
    """Yield the notes on the errors and the warnings of Hessians."""
    hessians = [cell for cell in cells if cell.metric.source == "hessian"]
    if cautioned := _cautioned(hessians):
        first = next(run.warning for cell in hessians for run in cell.readings if run.warning)
        yield f"In {cautioned} cells an estimate has a warning; the .csv has all. The first: {first}."
    largest: dict[str, float] = {}
    for cell in cells:
        if cell.error is not None:
            largest[cell.number.metric] = max(cell.error, largest.get(cell.number.metric, 0))
    sources = {True: "standard error of the random vectors", False: "residual"}
    texts = [
        f"{METRICS[metric].words}: {sources[metric.endswith('trace')]} {100 * error:.2g} %"
        for metric, error in largest.items()
    ]
    if texts:
        yield f"Largest relative errors of one seed's estimate. {'; '.join(texts)}."


def _negative(table: FilledTable) -> Iterator[str]:
    names = [f"{row.label}, {_column(at)}" for at, row, cell in table.labelled_cells if compare.indefinite(cell)]
    reason = "the model is at no minimum, so the number does not measure flatness and has no rank"
    if names:
        yield f"Negative curvature for a seed: {reason} ({'; '.join(names)})."


def is_warned(cell: Cell) -> bool:
    """Return whether another tool's estimate is too far from ours for their errors."""
    return bool(cell.beside and not cell.beside.within)


def _compared(table: FilledTable) -> list[str]:
    """Return the note on the agreement with the paper: of cells, and of the order of the rows."""
    agreements, texts = Counter(map(compare.agreement, table.cells)), []
    if total := sum(agreements[state] for state in compare.JUDGED):
        near = f", {agreements['near']} near" if agreements["near"] else ""
        texts.append(f"{agreements['agrees']} of {total} cells agree with the paper's{near}{_tolerance(table)}")
    if order := compare.order(table.by_column.values()):
        texts.append(order)
    text = "; ".join(texts)
    return [f"{text[0].upper()}{text[1:]} (flatfed verify)."] if texts else []


def _tolerance(table: FilledTable) -> str:
    """Return the tolerance that the table sets, and the errata whose numbers it does not judge."""
    document, texts = table.shown.document, []
    if document.tolerance:
        agrees, near = document.tolerance.agrees, document.tolerance.near
        for points in dict.fromkeys(cell.unit == "fraction" for cell in table.cells):
            unit = ("point" if agrees == 1 else "points") if points else "% of the printed number"
            texts.append(f"agrees: within {agrees:g} {unit}, near: within {near:g}")
    cited = {flag for cell in table.cells for flag in cell.flags}
    if ids := sorted(cited.intersection(document.not_judged)):
        texts.append(f"not judged: numbers with {' or '.join(ids)}")
    return f" ({'; '.join(texts)})" if texts else " within the tolerance"
