"""The page of what comes out at the papers' own settings, Markdown: everything in it is made of runs."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from flatfed.files import write_whole
from flatfed.tables.formats import html
from flatfed.tables.formats.markdown import escape
from flatfed.tables.notes import flags
from flatfed.tables.own_setting import Outcome, Trained, order, side


def write(
    made: list[Outcome], smaller: list[dict[str, Any]], out: Path, picture: str | None, without_sums: str = ""
) -> None:
    """Write the page of outcomes ``made`` at the papers' own settings and of tables made at ``smaller`` ones, whole.

    ``without_sums`` is a sentence that counts the records which cannot tell whether their lines are what was written.
    """
    environment = Environment(
        loader=FileSystemLoader(html.TEMPLATES), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"escape": escape}
    tables = [(title, list(each)) for title, each in groupby(made, key=lambda one: one.table)]
    page = environment.get_template("results.md.j2").render(
        verdict=verdict(made),
        picture=picture,
        tables=[(title, [line(one) for one in each], ordered(each)) for title, each in tables],
        runs=[about(run) for run in trainings(made)],
        smaller=[{**one, "claims": claims(one["result"].outcomes()) if one["result"] else ""} for one in smaller],
        without_sums=without_sums,
    )
    with write_whole(out, "w") as file:
        file.write(page.rstrip() + "\n")


def trainings(made: list[Outcome]) -> list[Trained]:
    """Return the runs of outcomes, each once, by what they are."""
    every = {run.folder: run for one in made for run in one.runs}
    return sorted(every.values(), key=lambda run: (*run.ids, run.precision))


def verdict(made: list[Outcome]) -> str:
    """Return the one sentence that says how things stand."""
    if not made:
        return "At the papers' own settings no run has a number that a paper prints yet."
    every = trainings(made)
    precisions = " and ".join(sorted({run.precision for run in every}))
    seeds = sorted({len(one.runs) for one in made})
    said = f"n = {seeds[0]}" + (f" to {seeds[-1]}" if len(seeds) > 1 else "")
    # A number that several tables print counts once.
    once = {one.quantity: one for one in made}.values()
    sides = Counter(side(one) for one in once if one.known and one.cell.paper_value is not None)
    found = order(made)
    numbers = f"{sides['agrees']} within a tenth (accuracies: a point), {sides['better']} better by more"
    pairs = f"of {_many(found.told, 'pair')} of rows whose order can be told, {found.held} as printed"
    if not found.told:
        pairs = "the order of no two rows can be told yet"
    return (
        f"At the papers' own settings, {_many(len(every), 'run')} so far ({precisions}, {said}): of "
        f"{_many(sides.total(), 'printed number')} that can be compared, {numbers} and {sides['worse']} worse by more; "
        f"{pairs}."
    )


def _many(count: int, thing: str) -> str:
    return f"{count} {thing}{'s' * (count != 1)}"


def line(one: Outcome) -> list[str]:
    """Return an outcome's texts, column by column of the page's tables."""
    rounds = " / ".join(f"{run.rounds} of {run.description['rounds']}" for run in one.runs)
    printed = " ".join([one.printed, *(f"({flag})" for flag in flags(one.cell))])
    return [one.column, one.row, printed, one.ours, one.difference or "–", str(len(one.runs)), rounds, one.precision]


def ordered(made: list[Outcome]) -> str:
    """Say how the printed order of a table's rows comes out."""
    found = order(made)
    if not found.claimed:
        return ""
    told = (
        f"{found.told} can be told by now, of which {found.held} as printed" if found.told else "none can be told yet"
    )
    return f"Pairs of these rows that are printed apart: {found.claimed}; {told}."


def about(run: Trained) -> list[str]:
    """Return the texts of a run: what it is, how far, how well, what it took, on what."""
    of, accuracies, rounds = run.description, run.history[run.accuracy], run.history["round"]
    best = max(range(len(accuracies)), key=accuracies.__getitem__, default=None)
    places = dict.fromkeys(map(_place, run.record.sessions or [vars(run.record)]))
    return [
        *(of["protocol"], of["split"], of["algorithm"], str(of["seed"]), run.precision),
        f"{run.rounds} of {of['rounds']}" + (" (diverged)" if run.diverged else ""),
        "–" if best is None else f"{100 * accuracies[-1]:.2f}",
        "–" if best is None else f"{100 * accuracies[best]:.2f} ({rounds[best]})",
        f"{run.record.seconds / 3600:.1f}",
        "; ".join(places),
    ]


def _place(session: dict[str, Any]) -> str:
    """Say what a session of training ran on."""
    name = session["host"]["gpu"] if session["device"] == "cuda" else session["host"]["processor"]
    return f"{name or '?'}, {_many(session['threads'], 'thread')}"


def claims(outcomes: Counter[str]) -> str:
    """Say what became of the printed claims "A beats B" at a setting that is not the papers'."""
    tested = outcomes.total() - outcomes["untested"]
    clear = outcomes["held clearly"] + outcomes["reversed clearly"]
    return (
        f"Of {_many(outcomes.total(), 'printed pair')} of rows of which one is ahead, {outcomes['held clearly']} stand "
        f"clearly here (the paired 95 % interval excludes zero), {outcomes['reversed clearly']} are clearly reversed, "
        f"and {tested - clear} cannot be told."
    )
