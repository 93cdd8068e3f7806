"""Bars at the foot of the terminal on which Snakemake runs: its own count of jobs, and one for each training under way.

Jobs write to logs, so that they can share a terminal. Every training writes its progress to its folder
(:mod:`flatfed.engine.job.progress`), on whatever host it runs. Snakemake's own log goes above the bars.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm
from tqdm.contrib import DummyTqdmFile

from flatfed.engine.job import progress
from flatfed.engine.job.progress import Progress

WIDTH = 6  # columns that a bar has at least, before its label is shortened
LABEL = 12  # columns that a label keeps, whatever the terminal


def attach(logger: logging.Logger, jobs: int) -> None:
    """Draw bars for a workflow of so many ``jobs`` that reports to ``logger``, if that writes to a terminal.

    They go when the logger's handlers are closed, at the latest when the process ends.
    """
    streams = [handler for handler in logger.handlers if getattr(handler, "stream", None)]
    shown = [handler for handler in streams if handler.stream.isatty()]
    if shown and os.environ.get("TERM", "dumb") != "dumb":
        logger.addHandler(Bars(shown, jobs))


def brief(state: Progress) -> str:
    """Return how far a training is in few words, so that three bars are readable on a terminal of 80 columns."""
    parts = [f"{state.round}/{state.rounds}"]
    if state.accuracy is not None:
        parts.append(f"{state.unseen} {100 * state.accuracy:.2f} %")
    if state.pace is not None:
        parts += [f"{state.pace:.3g} s/round", f"{state.left} left"]
    return "  ".join(parts)


class Bar(tqdm):
    """A bar with ``text`` behind it; of a label that is too long for the line, the beginning is left out."""

    monitor_interval = 0  # no thread of its own: `show` draws it
    text = ""

    @property
    def format_dict(self) -> dict[str, Any]:
        """What tqdm makes a line of."""
        known = super().format_dict
        label, room = known["prefix"], (known["ncols"] or 80) - len("  100%||  ") - WIDTH - len(self.text)
        if len(label) > max(room, LABEL):
            known["prefix"] = ".." + label[2 - max(room, LABEL) :]
        return known | {"text": self.text}

    def show(self, done: int, total: int, text: str) -> None:
        """Draw ``done`` of ``total`` with ``text``."""
        self.n, self.total, self.text = done, total, text
        self.refresh()


@dataclass
class Job:
    """A job of the workflow from its start to its end: its ``rule``, the ``folders`` it writes to, and their bars.

    A training writes to one, or to one for each seed where they train together.
    """

    rule: str
    folders: list[Path]
    bars: dict[Path, Bar] = field(default_factory=dict)


class Bars(logging.Handler):
    """Follows Snakemake's events and draws twice a second, on the stream of ``shown``, handlers that log there too."""

    interval = 0.5  # seconds

    def __init__(self, shown: list[logging.StreamHandler], total: int):
        super().__init__()
        tqdm.set_lock(threading.RLock())  # tqdm's own is for several processes, and starts one
        self.stream = shown[0].stream
        self.shown = {handler: handler.stream for handler in shown}
        for handler, stream in self.shown.items():
            handler.setStream(DummyTqdmFile(stream))
        self.jobs: dict[int, Job] = {}
        self.done, self.total, self.began = 0, total, time.monotonic()
        self.failed: set[int] = set()  # numbers of jobs
        self.guard = threading.RLock()  # not the handler's own, which `close` is called with
        self.all_jobs = self._bar("all jobs", total)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what an event of Snakemake's says of its jobs."""
        event = getattr(record, "event", None)
        with self.guard:
            if event == "job_info":
                # Snakemake writes the kind of an output behind its name.
                files = [Path(output.partition(" (")[0]) for output in record.output]
                self.jobs[record.jobid] = Job(record.rule_name, sorted({file.parent for file in files}))
                self.failed.discard(record.jobid)
            elif event == "job_finished":
                self._end(record.job_id)
            elif event == "job_error":
                self._end(record.jobid)
                self.failed.add(record.jobid)
            elif event == "progress":
                self.done, self.total = record.done, record.total

    def close(self) -> None:
        """Take the bars away, and give the handlers their streams back."""
        if not self.ended.is_set():
            self.ended.set()
            self.thread.join()
            for number in list(self.jobs):
                self._end(number)
            self.all_jobs.close()
            for handler, stream in self.shown.items():
                handler.setStream(stream)
        super().close()

    def draw(self) -> None:
        """Draw all bars anew."""
        with self.guard:
            rules = Counter(job.rule for job in self.jobs.values())
            parts = [f"{self.done} of {self.total}"]
            parts += [f"{len(self.failed)} failed"] if self.failed else []
            parts += ["at work: " + ", ".join(f"{number} {rule}" for rule, number in rules.items())] if rules else []
            parts += [progress.duration(time.monotonic() - self.began)]
            self.all_jobs.show(self.done, self.total, "  ".join(parts))
            for job in self.jobs.values():
                for folder in job.folders:
                    state = progress.read(folder)
                    if state is None and folder in job.bars:
                        job.bars.pop(folder).close()
                    elif state is not None:
                        if folder not in job.bars:
                            job.bars[folder] = self._bar(state.run, state.rounds)
                        job.bars[folder].show(state.round, state.rounds, brief(state))

    def _bar(self, label: str, total: int) -> Bar:
        """Return a bar on the first line that is free."""
        form = "{desc} {percentage:3.0f}%|{bar}| {text}"
        return Bar(desc=label, total=total, bar_format=form, file=self.stream, dynamic_ncols=True, leave=False)

    def _end(self, number: int) -> None:
        """Take the bars of a job away; one that began before these bars were there has none."""
        if job := self.jobs.pop(number, None):
            for bar in job.bars.values():
                bar.close()

    def _watch(self) -> None:
        while not self.ended.wait(self.interval):
            self.draw()
