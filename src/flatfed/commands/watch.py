"""The live view of running trainings for `flatfed status --watch`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Display

from flatfed.engine.job.progress import Progress, read
from flatfed.plan import Run
from flatfed.runs import lock


class Bars:
    """A bar, accuracy and time left of each training among ``runs``, by folder."""

    def __init__(self, runs: Mapping[str, Run], console: Console | None = None):
        label, text = TextColumn("{task.description}"), TextColumn("{task.fields[state]}")
        self.runs, self.display = runs, Display(label, BarColumn(), text, console=console)
        self.tasks: dict[str, TaskID] = {}

    def draw(self) -> None:
        """Add the trainings that began, remove those that ended, and show the state of the others."""
        running = {folder: run for folder, run in self.runs.items() if lock.is_held(folder)}
        for folder in self.tasks.keys() - running.keys():
            self.display.remove_task(self.tasks.pop(folder))
        for folder, run in running.items():
            state = read(Path(folder)) or Progress(0, run.config.rounds)
            if folder not in self.tasks:
                self.tasks[folder] = self.display.add_task(run.name, total=state.rounds, state="")
            self.display.update(self.tasks[folder], completed=state.round, state=str(state))
        self.display.refresh()


def watch(runs: Mapping[str, Run], seconds: float = 1.0) -> None:
    """Draw the bars of ``runs`` every ``seconds``, until an interrupt."""
    bars = Bars(runs)
    with contextlib.suppress(KeyboardInterrupt), bars.display:
        while True:
            bars.draw()
            time.sleep(seconds)
