"""The page of cells that several sources print: their numbers side by side, and ours where there is one."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flatfed.papers import printed_sources
from flatfed.papers.printed_sources import Disputed, Place, Ranking, Source
from flatfed.papers.units import many
from flatfed.tables import page_templates
from flatfed.tables.own_setting import Trained

TITLE = "Disputed cells"
ABOUT = (
    "Cells of the same data, model, split, clients and algorithm that two sources or more print. The sources read them "
    "after different numbers of rounds and with other defaults, so that their levels need not agree; the order of the "
    "algorithms in a column is what a reader takes from a table. Numbers are as printed, in percent."
)

#: Columns that hold no numbers.
WORDS = ("where", "read after", "sources")

#: Points from which on a cell is listed with what differs between the set-ups.
FAR = 5.0

Runs = Mapping[tuple[Place, str], Sequence[Trained]]


@dataclass(frozen=True)
class Section:
    """A part of the page: its title, sentences, and a table, of texts; ``words``: its columns that are no numbers."""

    title: str
    says: tuple[str, ...]
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: tuple[str, ...] = ()


def sections(known: Sequence[Source], labels: Mapping[str, str], runs: Runs) -> list[Section]:
    """Return the parts of the page; ``labels`` are what algorithms are called, ``runs`` ours at papers' settings."""
    cells = printed_sources.disputed(known)
    found = [_of_sources(known, runs), _of_rankings(known, printed_sources.rankings(cells))]
    found += [_of_place(known, *each, labels, runs) for each in printed_sources.by_place(cells).items()]
    return found


def sentence(known: Sequence[Source]) -> str:
    """Say how many cells are disputed, and by how much."""
    cells = printed_sources.disputed(known)
    if not cells:
        return "No cell is printed by two sources."
    spreads = [cell.spread for cell in cells]
    far, further = sum(spread > FAR for spread in spreads), sum(spread > 2 * FAR for spread in spreads)
    return (
        f"{len(cells)} cells are printed by two sources or more: their numbers are {statistics.median(spreads):.1f} "
        f"points apart in the median, more than {FAR:g} in {far} cells and more than {2 * FAR:g} in {further}."
    )


def _of_sources(known: Sequence[Source], runs: Runs) -> Section:
    """Return who prints what, read how, and how many rounds of ours there are to be read so."""
    longest = max((run.rounds for of_cell in runs.values() for run in of_cell), default=0)
    fewest = min((source.rounds for source in known), default=0)
    own = "Ours are read as a source reads its own, where a run is long enough"
    own += "." if longest >= fewest else f": none is by now, the longest of {longest:,} rounds." if longest else "."
    rows = tuple((source.label, source.where, _read_after(source), str(len(source.cells))) for source in known)
    return Section("Sources", (sentence(known), own), ("source", "where", "read after", "accuracies"), rows, WORDS)


def _read_after(source: Source) -> str:
    return f"{source.read} ({source.inferred})" if source.inferred else source.read


def _of_rankings(known: Sequence[Source], found: Sequence[Ranking]) -> Section:
    """Return how the sources rank the same algorithms."""
    label = {source.id: source.label for source in known}
    pairs: dict[tuple[str, str], list[Ranking]] = {}
    for one in found:
        pairs.setdefault(one.sources, []).append(one)
    said = [
        f"{label[a]} against {label[b]}: mean tau {statistics.fmean(one.tau for one in of):.2f} over "
        f"{many(len(of), 'column')}, the best row the same in {sum(one.same_best for one in of)}."
        for (a, b), of in pairs.items()
    ]
    rows = tuple(
        (
            printed_sources.in_words(one.place),
            f"{label[one.sources[0]]}, {label[one.sources[1]]}",
            str(one.rows),
            f"{one.tau:.2f}",
            f"{one.interval[0]:.2f} to {one.interval[1]:.2f}" if one.interval else "–",
            "yes" if one.same_best else "no",
        )
        for one in found
    )
    about = (
        "Kendall's tau of the rows that two sources print in a column, 1 for the same order, 0 for none, with its 95 % "
        "interval (Fieller, Hartley and Pearson 1957), which the few rows of a column leave wide; four rows, and "
        "rows in the same order, have none."
    )
    head = ("column", "sources", "rows", "tau", "95 % interval", "same best row")
    return Section("Do they rank alike?", (about, *said), head, rows, WORDS)


def _of_place(
    known: Sequence[Source], place: Place, cells: list[Disputed], labels: Mapping[str, str], runs: Runs
) -> Section:
    """Return one column of the sources' tables, a row an algorithm."""
    there = [source for source in known if any(source.id in cell.numbers for cell in cells)]
    rows, said = [], []
    for cell in sorted(cells, key=lambda cell: -cell.spread):
        label = _label(known, cell.row, labels)
        numbers = [f"{cell.numbers[s.id]:.2f}" if s.id in cell.numbers else "" for s in there]
        own = [_ours(source, runs.get((place, cell.row), ())) for source in there]
        rows.append((label, *numbers, f"{cell.spread:.2f}", _joined(own)))
        if cell.spread > FAR:
            said.append(f"{label}, {cell.spread:.1f} points: {'. '.join(printed_sources.differences(known, cell))}.")
    head = ("algorithm", *(source.label for source in there), "apart", "ours")
    return Section(printed_sources.in_words(place), tuple(said), head, tuple(rows))


def _label(known: Sequence[Source], row: str, labels: Mapping[str, str]) -> str:
    """Return what an algorithm is called: here, as the best of several, or as its source has it."""
    of = next((source.best_of[row] for source in known if row in source.best_of), ())
    return labels.get(row) or (f"Best of {', '.join(labels.get(one, one) for one in of)}" if of else row)


def _ours(source: Source, runs: Sequence[Trained]) -> str:
    """Return our number read as ``source`` reads its own: "74.1 (500 rounds)", "" where no run is that long."""
    numbers = [number for run in runs if (number := read_as(source, run)) is not None]
    if not numbers:
        return ""
    seeds = f", n = {len(numbers)}"
    return f"{100 * statistics.fmean(numbers):.2f} ({source.rounds} rounds{seeds})"


def read_as(source: Source, run: Trained) -> float | None:
    """Return a run's test accuracy, a fraction, as ``source`` reads its own numbers; None of a run that is shorter.

    A run of more rounds is read where the source stops: a round knows nothing of how many there will be, as long as the
    learning rate falls round by round.
    """
    rounds = run.history["round"]
    if not rounds or rounds[-1] < source.rounds:
        return None
    until = [accuracy for at, accuracy in zip(rounds, run.history[run.accuracy], strict=True) if at <= source.rounds]
    if source.read_out == "best":
        return max(until)
    return statistics.fmean(until[-(source.last or 1) :])


def _joined(texts: Sequence[str]) -> str:
    return "; ".join(dict.fromkeys(text for text in texts if text)) or "–"


def page(found: Sequence[Section], suffix: str) -> str:
    """Return the page of these parts in the format of ``suffix``."""
    return page_templates.page("disputed", suffix, title=TITLE, about=ABOUT, sections=found)
