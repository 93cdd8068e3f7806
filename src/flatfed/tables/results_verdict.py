"""How things stand at the papers' own settings: the sentence that begins the page of results, and what follows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from flatfed.papers.units import many
from flatfed.tables.own_setting import Trained
from flatfed.tables.read_outs import MEANS, Comparison, ReadPair
from flatfed.tables.standing import AS_PRINTED, REVERSED


class Words(NamedTuple):
    """How the sides of a number beside print are called, and what the tables read."""

    near: str
    better: str
    worse: str
    read: str


WORDS = {
    "rounds_to_target": Words("within a tenth", "earlier", "later", "by first crossings"),
    "test_accuracy": Words("within a point", "higher", "lower", "in the last round"),
}


def verdict(
    runs: Sequence[Trained], settings: Sequence[str], compared: Sequence[Comparison], read: Sequence[ReadPair]
) -> str:
    """Return the sentence that says how ``runs`` at ``settings``, in words, stand to print."""
    if not runs:
        return "At the papers' own settings no run has a number that a paper prints yet."
    numbers = [numbers_beside_print(each) for each in compared] or ["no number can be held against print yet"]
    return f"{how_far(runs, settings)}: {'; '.join([*numbers, pairs_of_rows(read)])}."


def how_far(runs: Sequence[Trained], settings: Sequence[str]) -> str:
    """Return what was run, and how far it came."""
    seeds: dict[tuple[str, ...], set[int]] = {}
    for run in runs:
        about = run.description
        seeds.setdefault((run.ids.protocol, run.ids.split, run.ids.algorithm, run.precision), set()).add(about["seed"])
    n = _between([len(each) for each in seeds.values()])
    counted = Counter(run.precision for run in runs).most_common()
    precisions = counted[0][0] if len(counted) == 1 else ", ".join(f"{number} in {name}" for name, number in counted)
    where = "; ".join(settings) if len(settings) < 3 else f"{len(settings)} settings"
    under_way = [run for run in runs if not run.record.ended]
    ended = len(runs) - len(under_way)
    state = "all finished"
    if under_way:
        whole = _between([run.description["rounds"] for run in under_way])
        at = f"{_between([run.rounds for run in under_way])} of {whole} rounds"
        state = f"{ended} finished, the others {at}" if ended else at
    return f"At the papers' own settings ({where}), {many(len(runs), 'run')} ({precisions}; n = {n}; {state})"


def numbers_beside_print(compared: Comparison) -> str:
    """Return how many numbers come out as printed, and how many on either side, as tables and as means read them."""
    words, smooth = WORDS[compared.metric], MEANS[-1]
    own, other = (compared.sides[compared.ways.index(way)] for way in (compared.ways[0], smooth))
    return (
        f"of {many(compared.printed, 'printed number')} ({compared.title.lower()}) {own.total()} can be compared so "
        f"far, ours {words.near} for {own['agrees']}, {words.better} for {own['better']} and {words.worse} for "
        f"{own['worse']} {words.read}, and for {other['agrees']}, {other['better']} and {other['worse']} of "
        f"{other.total()} by the {smooth.label} rounds"
    )


def pairs_of_rows(read: Sequence[ReadPair]) -> str:
    """Return how many pairs of rows come out in the printed order."""
    answers = [pair.answer for pair in read if pair.told]
    if not answers:
        return "the order of no two rows can be told yet"
    return (
        f"of {many(len(answers), 'pair')} of rows whose order most readings of the curves can tell, "
        f"{answers.count(AS_PRINTED)} stand as printed by all of these and {answers.count(REVERSED)} reversed by all, "
        f"the other {len(answers) - answers.count(AS_PRINTED) - answers.count(REVERSED)} depend on the reading"
    )


def details(compared: Iterable[Comparison], read: Sequence[ReadPair]) -> list[str]:
    """Return the sentences below the verdict: how far from print on the mean, and what could not be told."""
    untold = sum(not pair.told for pair in read)
    more = f"Of {many(len(read), 'pair')} of rows that are printed apart, {untold} cannot be told by most readings yet."
    return [*filter(None, map(ratio_to_print, compared)), *([more] if untold else [])]


def ratio_to_print(compared: Comparison) -> str:
    """Return how many times the printed rounds ours are, "" of accuracies and where nothing is known."""
    known = [row[0].cell for row in compared.rows if row[0].comparable]
    if compared.metric != "rounds_to_target" or not known:
        return ""
    said = f"First crossings come after {compared.difference.mean_over(known):.2f} times the printed rounds (geometric "
    said += f"mean of {len(known)}"
    late = [row[0] for row in compared.rows if not row[0].comparable and not row[0].bounds.never]
    if late:
        numbers = [(cell.value, cell.paper_value) for cell in known]
        numbers += [(outcome.bounds.low, outcome.cell.paper_value) for outcome in late]
        least = compared.difference.mean([compared.difference.between(*both) for both in numbers])
        said += f", and at least {least:.2f} with {len(late)} more, late and not reached yet"
    if not compared.means:
        return f"{said})."
    first, *others = compared.means
    return (
        f"{said}). The {compared.shared} numbers that every one of {len(compared.ways)} readings knows come after "
        f"{first:.2f} times by first crossings and {min(others):.2f} to {max(others):.2f} times by the others."
    )


def _between(numbers: Sequence[int]) -> str:
    """Return the least of ``numbers`` to the greatest."""
    return f"{min(numbers)}" + (f" to {max(numbers)}" if max(numbers) > min(numbers) else "")
