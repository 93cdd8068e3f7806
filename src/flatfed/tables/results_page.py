"""The page of what comes out at the papers' own settings, Markdown: everything in it is made from runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import astuple, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from flatfed.files import write_whole
from flatfed.papers.units import many
from flatfed.tables import page_templates
from flatfed.tables.notes import flags
from flatfed.tables.own_setting import Outcome, Trained, order, side
from flatfed.tables.read_outs import AS_IN_THE_TABLES, MEAN_OF_FIVE, Comparison, comparisons


@dataclass(frozen=True)
class SmallerSetting:
    """A table that is made at a smaller setting than the paper's, so that only the order of its rows is compared.

    ``runs`` of it there are, of which ``there`` are finished. ``differs``: key, value here, value at the paper's
    setting. ``outcomes`` counts what the paper's claims come to, None where not all runs are there.
    """

    table: str
    title: str
    paper: str
    runs: int
    there: int
    differs: list[tuple[str, str, str]]
    outcomes: Counter[str] | None

    @property
    def claims(self) -> str:
        """What became of the printed claims "A beats B", "" where not all runs are there."""
        if self.outcomes is None:
            return ""
        total, held, reversed_ = self.outcomes.total(), self.outcomes["held clearly"], self.outcomes["reversed clearly"]
        untold = total - self.outcomes["untested"] - held - reversed_
        return (
            f"Of {many(total, 'printed pair')} of rows of which one is ahead, {held} stand clearly here (exact sign "
            f"flips over seeds, corrected for all pairs), {reversed_} are clearly reversed, {untold} cannot be told."
        )


def write(
    outcomes: list[Outcome], smaller: list[SmallerSetting], out: Path, picture: str | None, without_sums: str = ""
) -> str:
    """Write the page of ``outcomes`` at the papers' own settings and of tables made at ``smaller`` ones, whole.

    ``without_sums`` is a sentence that counts the records which cannot tell whether their lines are what was written.
    Returns the page's first sentences, which say how things stand.
    """
    tables = [(title, list(rows)) for title, rows in groupby(outcomes, key=lambda outcome: outcome.table)]
    otherwise = comparisons(outcomes)
    said = f"{verdict(outcomes)} {sentence_on_rounds(otherwise)}".strip()
    page = page_templates.page(
        "results",
        ".md",
        verdict=said,
        picture=picture,
        tables=[(title, [line(outcome) for outcome in rows], sentence_on_order(rows)) for title, rows in tables],
        otherwise=[(each, lines_of_comparison(each)) for each in otherwise],
        runs=[line_of_run(run) for run in trainings(outcomes)],
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
    sides = Counter(side(outcome) for outcome in quantities if outcome.comparable)
    pairs = order(outcomes)
    numbers = f"{sides['agrees']} within a tenth (accuracies: a point), {sides['better']} better by more"
    told = f"of {many(pairs.told, 'pair')} of rows whose order can be told, {pairs.held} as printed"
    if not pairs.told:
        told = "the order of no two rows can be told yet"
    return (
        f"At the papers' own settings, {many(len(runs), 'run')} so far ({precisions}, {n}): of "
        f"{many(sides.total(), 'printed number')} that can be compared, {numbers} and {sides['worse']} worse by more; "
        f"{told}."
    )


def sentence_on_rounds(otherwise: list[Comparison]) -> str:
    """Return a sentence on what a mean of five evaluations does to rounds to a target, "" where nothing is known."""
    rounds = next((each for each in otherwise if each.metric == "rounds_to_target" and each.means), None)
    if rounds is None:
        return ""
    first, of_five = (rounds.means[rounds.ways.index(way)] for way in (AS_IN_THE_TABLES, MEAN_OF_FIVE))
    return (
        f"Rounds to a target are {first:.2f} times the printed ones as first crossings, {of_five:.2f} times as "
        f"crossings of the mean of five rounds (geometric means of {rounds.shared})."
    )


def line(outcome: Outcome) -> list[str]:
    """Return an outcome's texts, column by column of the page's tables."""
    rounds = " / ".join(f"{run.rounds} of {run.description['rounds']}" for run in outcome.runs)
    ours = outcome.ours, outcome.difference or "–"
    return [outcome.column, outcome.row, printed(outcome), *ours, str(len(outcome.runs)), rounds, outcome.precision]


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
    told = (
        f"{pairs.told} can be told by now, of which {pairs.held} as printed" if pairs.told else "none can be told yet"
    )
    return f"Pairs of these rows that are printed apart: {pairs.claimed}; {told}."


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
