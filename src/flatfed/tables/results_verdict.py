"""How things stand at the papers' own settings, in the sentences that begin the page of results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from flatfed.papers.units import many
from flatfed.tables.own_setting import Trained
from flatfed.tables.read_outs import MEANS, Comparison, ReadPair

#: What readings say of a pair of rows: that it is as printed, that it is not, or the one and the other.
YES, NO, EITHER = frozenset({True}), frozenset({False}), frozenset({True, False})


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
) -> list[str]:
    """Return the sentences that say how ``runs`` at ``settings``, in words, stand to print."""
    if not runs:
        return ["At the papers' own settings no run has a number that a paper prints yet."]
    numbers = [numbers_beside_print(each) for each in compared] or ["No number can be held against print yet."]
    return [how_far(runs, settings), *numbers, pairs_of_rows(read), *filter(None, map(ratio_to_print, compared))]


def how_far(runs: Sequence[Trained], settings: Sequence[str]) -> str:
    """Return what was run, and how far it has come."""
    seeds: dict[tuple[str, ...], set[int]] = {}
    for run in runs:
        about = run.description
        seeds.setdefault((run.ids.protocol, run.ids.split, run.ids.algorithm, run.precision), set()).add(about["seed"])
    counts = [len(each) for each in seeds.values()]
    n = f"n = {_between(counts)}"
    precisions = " and ".join(sorted({run.precision for run in runs}))
    where = "; ".join(settings) if len(settings) < 3 else f"{len(settings)} settings"
    under_way = [run for run in runs if not run.record.ended]
    ended = len(runs) - len(under_way)
    state = "all finished"
    if under_way:
        whole = _between([run.description["rounds"] for run in under_way])
        at = f"{_between([run.rounds for run in under_way])} of {whole} rounds"
        state = f"{ended} finished, the others at {at}" if ended else f"none finished: {at}"
    return f"At the papers' own settings, {many(len(runs), 'run')} so far ({where}; {precisions}; {n}), {state}."


def numbers_beside_print(compared: Comparison) -> str:
    """Return how many numbers come out as printed, and how many on either side, as tables and as means read them."""
    words, smooth = WORDS[compared.metric], MEANS[-1]
    own, other = (compared.sides[compared.ways.index(way)] for way in (compared.ways[0], smooth))
    return (
        f"{compared.title}: of {many(own.total(), 'printed number')} that can be told, ours are {words.near} "
        f"for {own['agrees']}, {words.better} for {own['better']} and {words.worse} for {own['worse']} {words.read}; "
        f"by the {smooth.label} rounds for {other['agrees']}, {other['better']} and {other['worse']} of "
        f"{other.total()}."
    )


def pairs_of_rows(read: Sequence[ReadPair]) -> str:
    """Return how many pairs of rows come out in the printed order."""
    counts = Counter(pair.answers for pair in read if pair.answers)
    if not counts:
        return "The order of no two rows can be told yet."
    return (
        f"Of {many(counts.total(), 'pair')} of rows whose order can be told, {counts[YES]} as printed by every reading "
        f"of the curves that can tell, {counts[NO]} by none and {counts[EITHER]} by some."
    )


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
    return (
        f"{said}); read in {len(compared.ways)} ways, the {compared.shared} that every way knows come after "
        f"{min(compared.means):.2f} to {max(compared.means):.2f} times."
    )


def _between(numbers: Sequence[int]) -> str:
    """Return the least of ``numbers`` to the greatest."""
    return f"{min(numbers)}" + (f" to {max(numbers)}" if max(numbers) > min(numbers) else "")
