"""What tables and figures cost, in numbers and in the lines that ``flatfed plan`` prints of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from flatfed.commands import time_run
from flatfed.commands.plan_costs import Costs
from flatfed.commands.plan_needs import Need
from flatfed.engine.memory.sizes import SPARE, Sizes, in_units, listed

#: States of runs (:func:`flatfed.commands.plan_needs.state`) that are there and not finished.
THERE = ("begun", "stale", "damaged")

#: How the seconds of a round are known (:class:`flatfed.commands.plan_costs.Seconds`).
WAYS = ("measured", "scaled", "counted", "unknown")

#: Rounds that a timing takes.
TIMING = time_run.WARM_UP + time_run.ROUNDS


@dataclass(frozen=True)
class Summary:
    """What a table or figure, or several, need: runs by state, seconds, bytes.

    ``states``: how many of the runs are in each. ``seconds`` are those of the runs that are not finished and of timings
    that are not there, ``evaluation_seconds`` the part of them that is evaluation; ``ways``: of how many of these they
    are known in each of ``WAYS``. ``disk_bytes`` of all runs but ``disk_unknown``, with so many ``models`` kept; memory
    is that of the run that takes most, ``largest`` by name what was worked out for it.
    """

    cells: int
    runs: int
    states: dict[str, int]
    timings: int
    seconds: float
    evaluation_seconds: float
    ways: dict[str, int]
    disk_bytes: int
    disk_unknown: int
    models: int
    client_state_bytes: int
    largest: tuple[str, Sizes] | None
    host_memory_bytes: int
    device_memory_bytes: int

    def plain(self) -> dict[str, Any]:
        """Return everything as JSON has it: states and ways among the rest."""
        content = asdict(self)
        if self.largest is not None:
            name, sizes = self.largest
            content["largest"] = {"run": name, **asdict(sizes), "total": sizes.total}
        return {**content.pop("states"), **content.pop("ways"), **content}


def summarise(need: Need, states: Mapping[str, str], costs: Costs, keep_models: str) -> Summary:
    """Return what ``need`` comes to; ``states`` are those of its runs by path, ``keep_models`` "all" or "needed"."""
    waiting = [run for path, run in need.runs.items() if states[path] != "finished"]
    untimed = [run for path, run in need.timings.items() if not Path(path).exists()]
    to_make = [*((run, run.description["rounds"]) for run in waiting), *((run, TIMING) for run in untimed)]
    expected = [(rounds, costs.expected(run)) for run, rounds in to_make]
    ways = Counter(each.way for _, each in expected)
    kept = need.runs if keep_models == "all" else need.analysed
    disk = [costs.disk(run, path in kept) for path, run in need.runs.items()]
    sizes = [(run.name, size) for run in waiting if (size := costs.sizes(run)) is not None]
    memory = [costs.memory(run) for run in waiting]
    by_state = Counter(states[path] for path in need.runs)
    return Summary(
        cells=need.cells,
        runs=len(need.runs),
        states={state: by_state[state] for state in ("finished", *THERE, "missing")},
        timings=len(untimed),
        seconds=round(sum(rounds * (each.round or 0.0) for rounds, each in expected), 1),
        evaluation_seconds=round(sum(rounds * each.evaluation for rounds, each in expected), 1),
        ways={way: ways[way] for way in WAYS},
        disk_bytes=sum(size or 0 for size in disk),
        disk_unknown=disk.count(None),
        models=len(kept),
        client_state_bytes=max((size.state for _, size in sizes), default=0),
        largest=max(sizes, key=lambda named: named[1].total, default=None),
        host_memory_bytes=max((host for host, _ in memory), default=0),
        device_memory_bytes=max((device for _, device in memory), default=0),
    )


def lines(name: str, summary: Summary, costs: Costs) -> Iterator[str]:
    """Yield what is printed of one table or figure, or of all, line by line."""
    finished = summary.states["finished"]
    there = "".join(f", {count} {state}" for state in THERE if (count := summary.states[state]))
    waiting = summary.runs - finished
    cells = f"{summary.cells} cells, " if summary.cells else ""
    yield f"{name}: {cells}{summary.runs} runs: {finished} there{there}, {waiting} to make"
    if waiting or summary.timings:
        yield _time_line(summary, costs)
    disk = [f"  disk    {in_units(summary.disk_bytes)} stay, {summary.models} models kept"]
    if waiting and summary.largest:
        checkpoint = summary.largest[1].state + summary.largest[1].server
        disk.append(f"a checkpoint of up to {in_units(checkpoint)} while a run trains")
    if summary.disk_unknown:
        disk.append(f"{summary.disk_unknown} of unknown size")
    yield "; ".join(disk)
    measured = {"host": summary.host_memory_bytes, "device": summary.device_memory_bytes}
    taken = ", ".join(f"{where} {in_units(size)}" for where, size in measured.items() if size)
    if taken:
        yield f"  memory  of one run: {taken} measured"
    if summary.largest:
        yield from memory_lines(*summary.largest, costs.device)


def _time_line(summary: Summary, costs: Costs) -> str:
    """Return the line of the hours: how many, how they are known, where they were measured."""
    unit = "GPU-hours" if costs.device == "cuda" else "hours of one job on the CPU"
    hours = f"{summary.seconds / 3600:,.2f} {unit}" if summary.seconds else "unknown"
    share = summary.evaluation_seconds / (summary.seconds or 1)
    evaluated = f", {100 * share:.0f} % of it evaluation" if share else ""
    known = ", ".join(f"{count} {way}" for way, count in summary.ways.items() if count)
    where = f"; on {', '.join(costs.machines())}" if costs.machines() else ""
    timings = f", {summary.timings} timings among them" if summary.timings else ""
    return f"  time    {hours}{evaluated} ({known}{where}){timings}"


def memory_lines(name: str, sizes: Sizes, device: str) -> Iterator[str]:
    """Yield what the run ``name``, the largest, takes at most, by what takes it, and where that lies."""
    place = "the GPU" if device == "cuda" else "the host"
    yield f"  memory  worked out for {name}: at most {in_units(sizes.total)} on {place}: {listed(sizes.parts())}"
    twice = in_units(SPARE * sizes.state)
    where = f"stays on the GPU where {twice} are free, else " if device == "cuda" else ""
    if sizes.state:
        yield f"          client state {where}in the host's memory where {twice} are free, else in a file"
    images = "on the GPU if half of that is free, else memory-mapped" if device == "cuda" else "memory-mapped"
    yield f"          training images {in_units(sizes.data)}, {images}"


def explained(summary: Summary, costs: Costs) -> Iterator[str]:
    """Yield what hours are that are counted, and why some are unknown."""
    nothing = "nothing like these runs was measured on this kind of device"
    if summary.ways["counted"]:
        rate = costs.rate()
        speed = f"{rate / 1e12:.3g} TFLOP/s" if rate >= 1e12 else f"{rate / 1e9:.3g} GFLOP/s"
        yield (
            f"counted: {nothing}; the operations of their convolutions and products at {speed}; a device that reaches "
            "another speed takes as much less or more"
        )
    if summary.ways["unknown"]:
        yield f"unknown: {nothing}"
