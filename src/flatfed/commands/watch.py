"""The live view of running trainings for `flatfed status --watch`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from flatfed.engine.job import progress
from flatfed.runs import lock


class Bars:
    """A bar, accuracy and time left of each training that runs in one of the folders ``runs``."""

    def __init__(self, runs: Collection[str], console: Console | None = None):
        label, text = TextColumn("{task.description}"), TextColumn("{task.fields[state]}")
        self.runs, self.display = list(map(Path, runs)), Progress(label, BarColumn(), text, console=console)
        self.tasks: dict[Path, TaskID] = {}

    def draw(self) -> None:
        """Add the trainings that began, remove those that ended, and show the state of the others."""
        states = {run: state for run in self.runs if (state := progress.read(run)) and lock.is_held(run)}
        for run in self.tasks.keys() - states.keys():
            self.display.remove_task(self.tasks.pop(run))
        for run, state in states.items():
            if run not in self.tasks:
                self.tasks[run] = self.display.add_task(state.run, total=state.rounds, state="")
            self.display.update(self.tasks[run], completed=state.round, state=str(state))
        self.display.refresh()


def watch(runs: Collection[str], seconds: float = 1.0) -> None:
    """Draw the bars of ``runs`` every ``seconds``, until an interrupt."""
    bars = Bars(runs)
    with contextlib.suppress(KeyboardInterrupt), bars.display:
        while True:
            bars.draw()
            time.sleep(seconds)
