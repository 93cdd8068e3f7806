"""The page of what comes out at the papers' own settings, Markdown: everything in it is made from runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from flatfed.files import write_whole
from flatfed.papers.significance import least_seeds
from flatfed.papers.units import many, signed
from flatfed.tables import claims, page_templates
from flatfed.tables.claims import Answer
from flatfed.tables.notes import flags
from flatfed.tables.own_setting import Outcome, Trained
from flatfed.tables.read_outs import Comparison, ReadPair, comparisons, pairs_read
from flatfed.tables.results_verdict import WORDS, details, verdict
from flatfed.tables.standing import AS_PRINTED, REVERSED, TIE, pairs
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


@dataclass(frozen=True)
class OwnTable:
    """A paper's table as far as it was run at its own setting.

    ``outcomes`` are of its columns of which runs are there; rows of these ``not_begun`` have none. ``notes``: the
    table's own, and the errata that concern it as a whole.
    """

    title: str
    outcomes: list[Outcome]
    not_begun: list[str]
    notes: list[str]


@dataclass(frozen=True)
class OwnSettings:
    """What was run at the papers' own settings: ``where``, in words, and the ``tables`` that print a number of it.

    ``chosen``: lines on what papers leave open and what their code does otherwise, as it was settled for these runs.
    """

    tables: Sequence[OwnTable] = ()
    where: Sequence[str] = ()
    chosen: Sequence[str] = ()

    @property
    def outcomes(self) -> list[Outcome]:
        """All outcomes, table by table."""
        return [outcome for table in self.tables for outcome in table.outcomes]


def write(
    own: OwnSettings,
    smaller: list[SmallerSetting],
    out: Path,
    picture: str | None,
    without_sums: str = "",
    trials: Sequence[Trial] = (),
    about: str = "",
) -> str:
    """Write the page of what was run at the papers' ``own`` settings and of tables made at ``smaller`` ones, whole.

    ``trials`` are of variants of runs of ``own``, and of other precisions. ``without_sums`` is a sentence that counts
    the records which cannot tell whether their lines are what was written. ``about``: Markdown by who made the runs.
    Returns the page's first sentence, which says how things stand.
    """
    outcomes = own.outcomes
    otherwise, read, runs = comparisons(outcomes), pairs_read(outcomes), trainings(outcomes)
    told, said = [pair for pair in read if pair.told], verdict(runs, own.where, otherwise, read)
    page = page_templates.page(
        "results",
        ".md",
        verdict=said,
        details=" ".join(details(otherwise, read)),
        unfinished=not all(run.record.ended for run in runs),
        reversed_=sentence_on_pairs(pair for pair in told if pair.answer == REVERSED),
        either=sentence_on_pairs(pair for pair in told if pair.answer not in (AS_PRINTED, REVERSED)),
        about=about,
        picture=picture,
        tables=[(table, list(map(line, table.outcomes)), sentence_on_order(table.outcomes)) for table in own.tables],
        chosen=own.chosen,
        notes=dict.fromkeys(note for table in own.tables for note in table.notes),
        otherwise=[(each, lines_of_comparison(each)) for each in otherwise],
        trials=[line_of_trial(trial) for trial in trials],
        last=LAST,
        runs=[line_of_run(run) for run in {run.folder: run for run in [*runs, *(t.run for t in trials)]}.values()],
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


def sentence_on_pairs(read: Iterable[ReadPair]) -> str:
    """Return the names of pairs of rows, their numbers as in the tables, and how many readings say what of them."""
    return "; ".join(
        f"{ahead.row} before {behind.row} ({ahead.column}: printed {_printed_in(ahead, behind)}, ours {ahead.ours} and "
        f"{behind.ours}; of {many(len(said), 'reading')} {said.count(AS_PRINTED)} say so, "
        f"{said.count(REVERSED)} the reverse{_ties(said.count(TIE))})"
        for (ahead, behind, _), said in read
    )


def _ties(count: int) -> str:
    return f", {count} neither" if count else ""


def _printed_in(ahead: Outcome, behind: Outcome) -> str:
    if ahead.table == behind.table:
        return f"{printed(ahead)} and {printed(behind)}"
    return " and ".join(f"{printed(each)} in {each.table.partition(':')[0]}" for each in (ahead, behind))


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
    words = WORDS[comparison.metric]
    named = {"agrees": words.near, "better": words.better, "worse": words.worse}
    counted = [
        [f"ours {word}", "", "", "", *(f"{sides[side]} of {sides.total()}" for sides in comparison.sides)]
        for side, word in named.items()
    ]
    difference = comparison.difference
    mean_of = f"{difference.words}, mean of {comparison.shared}"
    means = [mean_of, "", "", "", *map(difference.write, comparison.means)]
    return [*lines, *counted, *([means] if comparison.means else [])]


def sentence_on_order(outcomes: list[Outcome]) -> str:
    """Return a sentence on how the printed order of a table's rows comes out."""
    claimed = pairs(outcomes)
    if not claimed:
        return ""
    known = [pair.stands for pair in claimed if pair.stands is not None]
    told = f"{len(known)} can be told by now, of which {known.count(AS_PRINTED)} as printed"
    told = told if known else "none can be told yet"
    return f"Pairs of these rows that are printed apart: {len(claimed)}; {told}."


def line_of_trial(trial: Trial) -> list[str]:
    """Return the texts of a trial: whose, what it has otherwise, the rounds that are read, and both accuracies."""
    about, (plain, otherwise) = trial.plain.description, trial.accuracies
    here = [about["protocol"], about["split"], about["algorithm"], str(about["seed"]), trial.changed]
    first, last = trial.rounds
    points, over_all = (signed(each / 100, "percent", 2) for each in (otherwise - plain, trial.points))
    return [*here, f"{first} to {last} of {about['rounds']}", f"{plain:.2f}", f"{otherwise:.2f}", points, over_all]


def line_of_run(run: Trained) -> list[str]:
    """Return the texts of a run: what it is, how far, how well, what it took, on what."""
    about, accuracies, rounds = run.description, run.history[run.accuracy], run.history["round"]
    best = max(range(len(accuracies)), key=accuracies.__getitem__, default=None)
    clients = run.history.get("clients")
    machines = dict.fromkeys(map(_machine, run.record.sessions or [vars(run.record)]))
    return [
        *(about["protocol"], about["split"], about["algorithm"], str(about["seed"]), run.precision),
        f"{run.rounds} of {about['rounds']}" + (" (diverged)" if run.diverged else ""),
        f"{min(clients):.0f} to {max(clients):.0f}, {statistics.fmean(clients):.1f}" if clients else "–",
        "–" if best is None else f"{100 * accuracies[-1]:.2f}",
        "–" if best is None else f"{100 * accuracies[best]:.2f} ({rounds[best]})",
        f"{run.record.seconds / 3600:.1f}",
        _seconds_a_round(run),
        "; ".join(machines),
    ]


def _seconds_a_round(run: Trained) -> str:
    """Return the median of the seconds that a round took, evaluations with it."""
    rounds, seconds = run.history["round"], run.history.get("seconds")
    if not rounds or not seconds:
        return "–"
    steps = zip([0, *rounds], rounds, [0.0, *seconds], seconds, strict=False)
    return f"{statistics.median((then - now) / (last - first) for first, last, now, then in steps):.1f}"


def _machine(session: dict[str, Any]) -> str:
    """Return what a session of training ran on."""
    name = session["host"]["gpu"] if session["device"] == "cuda" else session["host"]["processor"]
    return f"{name or '?'}, {many(session['threads'], 'thread')}"
