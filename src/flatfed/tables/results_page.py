"""The page of what comes out at the papers' own settings, Markdown: everything in it is made from runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from flatfed.files import write_whole
from flatfed.papers.significance import least_seeds
from flatfed.papers.units import many, signed
from flatfed.tables import claims, page_templates
from flatfed.tables.claims import Answer
from flatfed.tables.notes import flags
from flatfed.tables.own_setting import Outcome, Trained
from flatfed.tables.read_outs import Comparison, comparisons
from flatfed.tables.standing import order, side
from flatfed.tables.trials import LAST, Trial


@dataclass(frozen=True)
class SmallerSetting:
    """A table that is made at a smaller setting than the paper's, so that only the order of its rows is compared.

    ``runs`` of it there are, of which ``there`` are finished. ``differs``: key, value here, value at the paper's
    setting. ``answers`` are what the paper's claims come to, None where not all runs are there; ``few`` the number of
    seeds, where it is too small for any test.
    """

    table: str
    title: str
    paper: str
    runs: int
    there: int
    differs: list[tuple[str, str, str]]
    answers: Sequence[Answer] | None
    few: int | None

    @property
    def claims(self) -> str:
        """What became of the printed claims that one row beats another, "" where not all runs are there."""
        if self.answers is None:
            return ""
        said = f"Of the printed leads of one row over another: {claims.counted(self.answers)}."
        if self.few is None:
            return said
        return (
            f"{said} With {many(self.few, 'seed')} nothing here can be told from chance; that takes {least_seeds()} "
            "(exact sign flips, paired by seed)."
        )


def write(
    outcomes: list[Outcome],
    smaller: list[SmallerSetting],
    out: Path,
    picture: str | None,
    without_sums: str = "",
    trials: Sequence[Trial] = (),
) -> str:
    """Write the page of ``outcomes`` at the papers' own settings and of tables made at ``smaller`` ones, whole.

    ``trials`` are of runs of ``outcomes`` with one choice otherwise. ``without_sums`` is a sentence that counts the
    records which cannot tell whether their lines are what was written. Returns the page's first sentences, which say
    how things stand.
    """
    tables = [(title, list(rows)) for title, rows in groupby(outcomes, key=lambda outcome: outcome.table)]
    otherwise = comparisons(outcomes)
    said = f"{verdict(outcomes)} {sentence_on_rounds(otherwise)}".strip()
    page = page_templates.page(
        "results",
        ".md",
        verdict=said,
        reversed_=sentence_on_reversed(outcomes),
        picture=picture,
        tables=[(title, [line(outcome) for outcome in rows], sentence_on_order(rows)) for title, rows in tables],
        otherwise=[(each, lines_of_comparison(each)) for each in otherwise],
        trials=[line_of_trial(trial) for trial in trials],
        last=LAST,
        runs=[line_of_run(run) for run in [*trainings(outcomes), *(trial.run for trial in trials)]],
        smaller=smaller,
        without_sums=without_sums,
    )
    with write_whole(out, "w") as file:
        file.write(page)
    return said


def trainings(outcomes: list[Outcome]) -> list[Trained]:
    """Return the runs of ``outcomes``, each once, ordered by their ids."""
    runs = {run.folder: run for outcome in outcomes for run in outcome.runs}
    return sorted(runs.values(), key=lambda run: (*astuple(run.ids), run.precision))


def verdict(outcomes: list[Outcome]) -> str:
    """Return the one sentence that says how things stand."""
    if not outcomes:
        return "At the papers' own settings no run has a number that a paper prints yet."
    runs = trainings(outcomes)
    precisions = " and ".join(sorted({run.precision for run in runs}))
    seeds = [len(outcome.runs) for outcome in outcomes]
    fewest, most = min(seeds), max(seeds)
    n = f"n = {fewest}" + (f" to {most}" if most > fewest else "")
    # A number that several tables print counts once.
    quantities = {outcome.quantity: outcome for outcome in outcomes}.values()
    sides = Counter(filter(None, map(side, quantities)))
    pairs = order(outcomes)
    numbers = f"{sides['agrees']} within a tenth (accuracies: a point), {sides['better']} better by more"
    told = f"of {many(pairs.told, 'pair')} of rows whose order can be told, {len(pairs.held)} as printed"
    if not pairs.told:
        told = "the order of no two rows can be told yet"
    return (
        f"At the papers' own settings, {many(len(runs), 'run')} so far ({precisions}, {n}): of "
        f"{many(sides.total(), 'printed number')} that can be compared, {numbers} and {sides['worse']} worse by more; "
        f"{told}."
    )


def sentence_on_rounds(otherwise: list[Comparison]) -> str:
    """Return a sentence on rounds to a target, and what other ways to read them do, "" where nothing is known."""
    rounds = next((each for each in otherwise if each.metric == "rounds_to_target"), None)
    known = [row[0].cell for row in rounds.rows if row[0].comparable] if rounds else []
    if not known:
        return ""
    first = (
        f"First crossings of a target come after {rounds.difference.mean_over(known):.2f} times the printed rounds "
        f"(geometric mean of {len(known)})"
    )
    if not rounds.means:
        return f"{first}."
    return (
        f"{first}; read in {len(rounds.ways)} ways, the {rounds.shared} that every way knows come after "
        f"{min(rounds.means):.2f} to {max(rounds.means):.2f} times."
    )


def sentence_on_reversed(outcomes: list[Outcome]) -> str:
    """Return a sentence that names the pairs of rows whose order is not as printed, "" where there are none."""
    pairs = [
        f"{ahead.row} before {behind.row} ({ahead.column}: printed {printed(ahead)} and {printed(behind)}, ours "
        f"{ahead.ours} and {behind.ours})"
        for ahead, behind in order(outcomes).reversed_
    ]
    return f"Not as printed: {'; '.join(pairs)}." if pairs else ""


def line(outcome: Outcome) -> list[str]:
    """Return an outcome's texts, column by column of the page's tables."""
    rounds = " / ".join(f"{run.rounds} of {run.description['rounds']}" for run in outcome.runs)
    ours = outcome.ours, outcome.difference or _difference_at_least(outcome) or "–"
    return [outcome.column, outcome.row, printed(outcome), *ours, str(len(outcome.runs)), rounds, outcome.precision]


def _difference_at_least(outcome: Outcome) -> str:
    """Return by how much a target that is not reached yet is missed by now, "" where it may still come in time."""
    cell, low = outcome.cell, outcome.bounds.low
    if cell.paper_value is None or not cell.paper_value < low < math.inf:
        return ""
    return f"> {signed(low - cell.paper_value, cell.printed_unit, cell.paper_decimals)}"


def printed(outcome: Outcome) -> str:
    """Return the printed number with the errata that concern it."""
    return " ".join([outcome.printed, *(f"({flag})" for flag in flags(outcome.cell))])


def lines_of_comparison(comparison: Comparison) -> list[list[str]]:
    """Return the texts of a table of ways to read a curve: printed numbers beside ours, agreement, and means."""
    lines = [
        [row[0].column, row[0].row, row[0].precision, printed(row[0]), *(outcome.ours for outcome in row)]
        for row in comparison.rows
    ]
    agreeing = ["agree with print", "", "", "", *(f"{agree} of {told}" for agree, told in comparison.agreeing)]
    difference = comparison.difference
    mean_of = f"{difference.words}, mean of {comparison.shared}"
    means = [mean_of, "", "", "", *map(difference.write, comparison.means)]
    return [*lines, agreeing, *([means] if comparison.means else [])]


def sentence_on_order(outcomes: list[Outcome]) -> str:
    """Return a sentence on how the printed order of a table's rows comes out."""
    pairs = order(outcomes)
    if not pairs.claimed:
        return ""
    told = f"{pairs.told} can be told by now, of which {len(pairs.held)} as printed"
    told = told if pairs.told else "none can be told yet"
    return f"Pairs of these rows that are printed apart: {pairs.claimed}; {told}."


def line_of_trial(trial: Trial) -> list[str]:
    """Return the texts of a trial: whose, what it has otherwise, how many rounds both have, and their accuracies."""
    about, (plain, otherwise) = trial.plain.description, trial.accuracies
    here = [about["protocol"], about["split"], about["algorithm"], str(about["seed"]), trial.changed]
    return [*here, str(len(trial.common)), f"{plain:.2f}", f"{otherwise:.2f}", f"{otherwise - plain:+.2f}"]


def line_of_run(run: Trained) -> list[str]:
    """Return the texts of a run: what it is, how far, how well, what it took, on what."""
    about, accuracies, rounds = run.description, run.history[run.accuracy], run.history["round"]
    best = max(range(len(accuracies)), key=accuracies.__getitem__, default=None)
    machines = dict.fromkeys(map(_machine, run.record.sessions or [vars(run.record)]))
    return [
        *(about["protocol"], about["split"], about["algorithm"], str(about["seed"]), run.precision),
        f"{run.rounds} of {about['rounds']}" + (" (diverged)" if run.diverged else ""),
        "–" if best is None else f"{100 * accuracies[-1]:.2f}",
        "–" if best is None else f"{100 * accuracies[best]:.2f} ({rounds[best]})",
        f"{run.record.seconds / 3600:.1f}",
        "; ".join(machines),
    ]


def _machine(session: dict[str, Any]) -> str:
    """Return what a session of training ran on."""
    name = session["host"]["gpu"] if session["device"] == "cuda" else session["host"]["processor"]
    return f"{name or '?'}, {many(session['threads'], 'thread')}"
