"""The notes under a table: how to read it, what is missing, what differs from the paper."""

from __future__ import annotations

import itertools
from collections import Counter

from flatfed.experiment.model import TableSpec
from flatfed.papers import significance
from flatfed.papers.metrics import METRICS
from flatfed.papers.quantity import TEST
from flatfed.papers.reference import FLAG
from flatfed.papers.units import UNITS, plural
from flatfed.runs.uncertainty import RelativeErrors
from flatfed.tables import claims, compare
from flatfed.tables.cell import Cell
from flatfed.tables.filled_table import FilledTable

#: Stands behind another tool's estimate that is further from ours than their errors allow.
WARNED = "⚠"


def gather(table: FilledTable, are_marked: bool) -> list[str]:
    """Return the notes of a table in reading order; only what applies to the cells at hand is said.

    ``are_marked``: whether some row is marked as best.
    """
    spec, made = table.spec, table.made
    notes = [reading(table), *symbols(made, spec.printed), *definitions(made), *timed(made), *estimated(made)]
    notes += [*compared(table), *absences(table), *mixed(made), *spec.notes]
    found = {flag for cell in made * spec.printed for flag in flags(cell)}
    errata = sorted(found, key=lambda flag: (flag[0], int(flag[1:])))
    notes += [f"{flag}: {spec.flags.get(flag, 'a discrepancy in the paper.')}" for flag in errata]
    return [*notes, *beside(made), *marked(table.columns, are_marked)]


def reading(table: FilledTable) -> str:
    """Say what a number is: quantity, unit, which rounds, which spread, and how it compares with the paper's."""
    spec, cells, usual = table.spec, table.made, table.usual
    windows = {cell.window for cell in cells if cell.unit == "fraction"}
    said = quantities(spec, cells)
    if windows:
        said += ", final round" if windows == {1} else f", mean over the last {max(windows)} evaluated rounds"
    said += "."
    if usual is not None:
        text = f"mean ± sample standard deviation over {usual} seeds; another number of seeds is in brackets."
        text = text if usual > 1 else "one seed, so no spread."
        said += f" Ours: {text}" if spec.printed else f" {text[0].upper()}{text[1:]}"
    if not spec.printed:
        return said
    said += " Paper: as printed."
    if table.differences:
        points = {cell.printed_unit for cell in cells} <= {"percent", "pp"}
        said += " Diff.: ours minus the paper's" + (", in percentage points." if points else ".")
    elif spec.scale == "preview":
        said += " No difference is taken: this scale's data and model are not the paper's."
    elif any(cell.compare == "ordering" for cell in cells):
        said += " No difference is taken: the set-up is not the paper's; the order of the rows may be compared."
    return said


def quantities(spec: TableSpec, cells: list[Cell]) -> str:
    """Say in the table's own words what the numbers are, and in which units."""
    units = list(dict.fromkeys(UNITS[cell.printed_unit].words for cell in cells)) or [UNITS[spec.unit].words]
    if len(units) == 1:
        return spec.metric + units[0]
    return f"{spec.metric} ({', '.join(unit.strip(' ,') for unit in units if unit)}, column by column)"


def symbols(cells: list[Cell], printed: bool) -> list[str]:
    """Explain the signs in place of numbers and the marks next to them; the paper's if its numbers are ``printed``."""
    notes = []
    late = [cell for cell in cells if cell.status == "not_reached"]
    if counted := [cell for cell in late if cell.printed_unit == "rounds"]:
        rounds = "/".join(map(str, sorted({cell.rounds for cell in counted})))
        text = f">{rounds}: the target was not reached by every seed within {rounds} rounds"
        notes.append(text + _some_did(counted))
    if other := [cell for cell in late if cell.printed_unit != "rounds"]:
        based = " of the row or of the row it is taken against" if any(cell.relative for cell in other) else ""
        notes.append(f"Not reached: the target was not reached by every seed{based}" + _some_did(other))
    unfinished = {METRICS[cell.metric].needs_target for cell in cells if cell.status == "unfinished"}
    if True in unfinished:
        notes.append(
            "Some runs are unfinished: a target that they reached counts; if they have not reached it yet, > stands "
            "before their rounds."
        )
    if False in unfinished:
        notes.append("Round N: the run is unfinished and has completed N rounds; the number is of the final round.")
    if printed and any(map(compare.not_reached, cells)):
        notes.append("–: printed by the paper for a target not reached.")
    if relative := [cell for cell in cells if cell.relative]:
        bases = ", ".join(dict.fromkeys(cell.base for cell in relative if cell.base))
        seeds = ": taken seed by seed, then averaged" if any(cell.n for cell in relative) else ""
        notes.append(f"Against a base row ({bases}){seeds}.")
    if printed and any(compare.over_clients(cell) and cell.paper_spread is not None for cell in cells):
        notes.append("The paper's deviations are over clients and never stand beside ours, which are over seeds.")
    return notes


def _some_did(cells: list[Cell]) -> str:
    return "; in brackets how many did." if any(not cell.reached.startswith("0/") for cell in cells) else "."


def definitions(cells: list[Cell]) -> list[str]:
    """Say how a table's metrics are counted, where their names do not, and which accuracy targets are held against."""
    said = dict.fromkeys(METRICS[cell.metric].defined for cell in cells)
    accuracies = dict.fromkeys(cell.accuracy for cell in cells if METRICS[cell.metric].needs_target)
    which = [METRICS[name].words for name in accuracies if name != TEST]
    of = [f"The accuracy that targets are held against: {', '.join(which).lower()}."] if which else []
    return [*filter(None, said), *of]


def timed(cells: list[Cell]) -> list[str]:
    """Say what seconds were measured on and how far they can be trusted: what their deviation is, a busy machine."""
    there = [cell for cell in cells if compare.timed(cell)]
    notes = []
    if places := sorted({place for cell in there for place in cell.timed}):
        notes.append(f"Timed on {'; '.join(places)}.")
    if any(cell.n and cell.n > 1 for cell in there):
        notes.append(
            "Seconds of a round are measured once and serve all seeds: a time's deviation is that of its rounds, "
            "not of the clock."
        )
    long = sum(bool(cell.warnings) for cell in there)
    if long:
        notes.append(
            f"In {long} of {len(there)} cells with times the machine was busy with other work when they were taken, so "
            "that they are too long; the .csv says which, and how busy."
        )
    return notes


def marked(columns: list[dict[str, Cell]], are_there: bool) -> list[str]:
    """Explain the marks of best and second where there are any, else why there are none; ``columns`` by row."""
    level, said = f"{100 * significance.LEVEL:g} %", ""
    made = [cell for column in columns for cell in column.values() if cell.status != "unfinished"]
    if few := claims.too_few_seeds(columns):
        said = (
            f"No best row is marked: with {plural(few, 'seed')} nothing in this table can be significant at "
            f"{level}; that takes {significance.least_seeds()} (exact sign flips, paired by seed)."
        )
    elif are_there:
        said = (
            "Bold: best of its column; underlined or italic: second. Marked only where the lead over the next row is "
            f"no chance of the seeds: exact sign flips, paired by seed, corrected for all columns (Holm), {level}."
        )
    elif any(cell.n and cell.n > 1 for cell in made):
        said = (
            "No best row is marked: no lead over the next one can be told from chance at "
            f"{level} (exact sign flips, paired by seed, corrected for all columns)."
        )
    return [said] if said else []


def beside(cells: list[Cell]) -> list[str]:
    """Say what another tool's estimates are, by which rule one is marked, and how many estimates carry warnings."""
    there = [cell for cell in cells if cell.beside]
    if not there:
        return []
    by = "/".join(sorted({cell.beside.by for cell in there}))
    seeds = ", mean ± sample standard deviation over the same seeds" if any(len(c.seeds) > 1 for c in there) else ""
    far = sum(warned(cell) for cell in there)
    said = [
        f"{by}: its own estimate at the same models, on the same images{seeds}. {WARNED} where the means are further "
        f"apart than the errors of both allow ({far} of {len(there)} cells): the mean over seeds, for an eigenvalue λ "
        f"of vector v, of the sum of both residuals ‖Hv − λv‖, for a trace of half of Student's interval of the "
        "difference (99.73 %)."
    ]
    cautioned = sum(bool(cell.warnings) for cell in there)
    if cautioned:
        said.append(
            f"In {cautioned} of {len(there)} cells an estimate carries a warning of its own, such as that it stopped "
            "at its limit of vectors; the .csv quotes it."
        )
    return said


def estimated(cells: list[Cell]) -> list[str]:
    """Say how large the errors of estimates are, at most: how they are made, and which images they are made on."""
    errors: dict[str, list[RelativeErrors]] = {}
    for cell in cells:
        if cell.errors:
            errors.setdefault(cell.metric, []).append(cell.errors)
    said = []
    for metric, shares in errors.items():
        own = "standard error of the random vectors" if metric.endswith("trace") else "residual"
        largest = [100 * max(each.estimate for each in shares), 100 * max(each.images for each in shares)]
        said.append("{}: {} {:.2g} %, of the choice of images {:.2g} %".format(METRICS[metric].words, own, *largest))
    return [f"Errors of one seed's estimate, at most, as shares of it. {'; '.join(said)}."] if said else []


def warned(cell: Cell) -> bool:
    """Return whether another tool's estimate is further from ours than their errors allow."""
    return bool(cell.beside and not cell.beside.within)


def warnings(table: FilledTable) -> list[str]:
    """Name each cell, by column and row, whose two estimates are further apart than their errors allow."""
    said = []
    for column, row in itertools.product(table.spec.columns, table.spec.rows):
        cell = table.by_column[column.id][row.id]
        if warned(cell):
            other, factor = cell.beside, UNITS[cell.printed_unit].factor
            # Not in the paper's decimals: those of a small number need not show in what two estimates differ.
            ours, theirs, error = (f"{factor * x:.4g}" for x in (cell.value, other.value, other.error))
            said.append(
                f"{row.label}, {', '.join(column.headers)}: {ours} here, {theirs} by {other.by}: further apart than "
                f"their errors allow ({error})."
            )
    return said


def compared(table: FilledTable) -> list[str]:
    """Sum up how the cells agree with the paper's and whether the order of the rows does."""
    found = [compare.agreement(cell) for cell in table.made]
    said = []
    total = found.count("agrees") + found.count("differs")
    if total:
        said.append(f"{found.count('agrees')} of {total} cells agree with the paper's within the tolerance")
    answers = claims.answers(table.columns) if table.spec.scale == "paper" else []
    if tested := [answer.outcome for answer in answers if answer.outcome != "untested"]:
        held = sum(one.startswith("held") for one in tested)
        clear = tested.count("held clearly")
        words = "printed claims that one row beats another hold over the columns that print them"
        said.append(f"{held} of {len(tested)} {words}, where chance gives {len(tested) / 2:g}; {clear} of them clearly")
    return [f"{'; '.join(said)} (flatfed verify)."] if said else []


def absences(table: FilledTable) -> list[str]:
    """Count the cells without a number, by reason."""
    words = {"missing": "missing", "diverged": "diverged (a run ended in non-finite numbers)"}
    counts = table.statuses
    said = [f"{counts[status]} {text}" for status, text in words.items() if counts[status]]
    return [f"Of {counts.total()} cells: {', '.join(said)}."] if said else []


def mixed(cells: list[Cell]) -> list[str]:
    """Name what the runs of a table were made by, with counts, where they were rounded in several ways."""
    roundings = {run: tuple(parts) for cell in cells for run, parts in cell.roundings.items()}
    differ = [len({*parts} - {None}) > 1 for parts in zip(*roundings.values(), strict=True)]
    ways = Counter(tuple(itertools.compress(parts, differ)) for parts in roundings.values()) if any(differ) else {}
    said = "; ".join(f"{plural(ways[way], 'run')}: {', '.join(filter(None, way)) or 'not recorded'}" for way in ways)
    return [f"The runs differ in what rounds their numbers: {said}."] if ways else []


def flags(cell: Cell) -> tuple[str, ...]:
    """Return the ids of the errata named in the note beside a cell's printed value ("flag:B1" is B1)."""
    return tuple(FLAG.findall(cell.paper_note))
