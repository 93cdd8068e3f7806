"""The page of what comes out at the papers' own settings, Markdown: everything in it is made of runs."""

from __future__ import annotations

import math
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from flatfed.files import write_whole
from flatfed.tables.compare import PART, POINT
from flatfed.tables.formats.markdown import escape
from flatfed.tables.own_setting import Outcome, order
from flatfed.tables.units import UNITS

TEMPLATES = Path(__file__).parent / "templates"


def write(made: list[Outcome], smaller: list[dict[str, Any]], out: Path, picture: str | None) -> None:
    """Write the page of outcomes ``made`` at the papers' own settings and of tables made at ``smaller`` ones, whole."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"escape": escape}
    tables = [(title, list(each)) for title, each in groupby(made, key=lambda one: one.title)]
    page = environment.get_template("results.md.j2").render(
        verdict=verdict(made),
        picture=picture,
        tables=[(title, [line(one) for one in each], ordered(each)) for title, each in tables],
        runs=runs(made),
        smaller=[{**one, "claims": claims(one["result"].outcomes())} for one in smaller],
    )
    with write_whole(out, "w") as file:
        file.write(page.rstrip() + "\n")


def verdict(made: list[Outcome]) -> str:
    """Return the one sentence that says how things stand."""
    if not made:
        return "At the papers' own settings nothing has been run yet."
    trainings = {id(run): run for one in made for run in one.runs}.values()
    precisions = " and ".join(dict.fromkeys(run.precision for run in trainings))
    seeds = max(len(one.runs) for one in made)
    # A number that several tables print counts once.
    once = list({(one.quantity, tuple(map(id, one.runs)), one.paper): one for one in made}.values())
    able = [one for one in once if one.known and one.paper is not None and math.isfinite(one.paper)]
    near = Counter(_side(one) for one in able)
    found = order(once)
    told = f"{_many(len(trainings), 'run')} so far ({precisions}, n = {seeds})"
    numbers = f"{near['near']} within a tenth (accuracies: a point), {near['better']} better by more"
    pairs = f"of {_many(found.told, 'pair')} of rows whose order can be told, {found.held} as printed"
    if not found.told:
        pairs = "the order of no two rows can be told yet"
    return (
        f"At the papers' own settings, {told}: of {_many(len(able), 'printed number')} that can be compared, {numbers} "
        f"and {near['worse']} worse by more; {pairs}."
    )


def _many(count: int, thing: str) -> str:
    return f"{count} {thing}{'s' * (count != 1)}"


def _side(one: Outcome) -> str:
    """Return whether ours is "near" the printed number, "better" or "worse"."""
    away = one.bounds[0] - one.paper
    if abs(away) <= (POINT if UNITS[one.unit][0] == "fraction" else PART * abs(one.paper)) + 1e-12:
        return "near"
    return "better" if (away > 0) == bool(one.better) else "worse"


def line(one: Outcome) -> list[str]:
    """Return an outcome's texts, column by column of the page's tables."""
    rounds = " / ".join(f"{run.rounds} of {run.description['rounds']}" for run in one.runs)
    seeds = str(len(one.runs))
    return [one.column, one.row, one.printed, one.ours, one.difference or "–", seeds, rounds, one.precision]


def ordered(made: list[Outcome]) -> str:
    """Say how the printed order of a table's rows comes out."""
    found = order(made)
    if not found.claimed:
        return ""
    return (
        f"Of {found.claimed} pairs of these rows that are printed apart, {found.told} can be told by now, of which "
        f"{found.held} stand{'s' * (found.held == 1)} in the printed order."
    )


def runs(made: list[Outcome]) -> list[list[str]]:
    """Return the texts of every run, once: what it is, how far, how well, and what it took on what."""
    every = {id(run): run for one in made for run in one.runs}
    found = []
    for run in every.values():
        about, accuracies = run.description, run.history["test_accuracy"]
        best = max(range(len(accuracies)), key=accuracies.__getitem__)
        found.append(
            [
                *(about["protocol"], about["split"], about["algorithm"], str(about["seed"]), run.precision),
                f"{run.rounds} of {about['rounds']}",
                f"{100 * accuracies[-1]:.2f}",
                f"{100 * accuracies[best]:.2f} ({run.history['round'][best]})",
                f"{run.hours:.1f}",
                f"{run.processor}, {_many(run.record['threads'], 'thread')}",
            ]
        )
    return sorted(found)


def claims(outcomes: Counter[str]) -> str:
    """Say what became of the printed claims "A beats B" at a setting that is not the papers'."""
    tested = outcomes.total() - outcomes["untested"]
    clear = outcomes["held clearly"] + outcomes["reversed clearly"]
    return (
        f"Of {outcomes.total()} printed pairs of rows of which one is ahead, {outcomes['held clearly']} stand clearly "
        f"here (the paired 95 % interval excludes zero), {outcomes['reversed clearly']} are clearly reversed, and "
        f"{tested - clear} cannot be told."
    )
