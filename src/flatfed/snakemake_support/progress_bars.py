"""Progress bars below Snakemake's log, one per running training, from the progress files of the run folders."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path

from tqdm import tqdm
from tqdm.contrib import DummyTqdmFile

from flatfed.engine.job import progress


def attach(logger: logging.Logger) -> None:
    """Draw bars for the workflow of ``logger`` if it writes to a terminal, until its handlers close."""
    shown = [handler for handler in logger.handlers if getattr(handler, "stream", None) and handler.stream.isatty()]
    if shown and os.environ.get("TERM", "dumb") != "dumb":
        logger.addHandler(Bars(shown))


class Bars(logging.Handler):
    """Draws bars below the lines of ``shown``, the terminal's log handlers."""

    def __init__(self, shown: list[logging.StreamHandler]):
        super().__init__()
        tqdm.set_lock(threading.RLock())  # the default lock starts a process
        for handler in shown:
            handler.setStream(DummyTqdmFile(handler.stream))
        self.folders: dict[int, list[Path]] = {}  # running job -> its output folders
        self.bars: dict[Path, tqdm] = {}
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Record starts and ends of jobs."""
        match vars(record):
            case {"event": "job_info", "jobid": job, "output": names}:  # a name may end in " (update)"
                self.folders[job] = sorted({Path(name.partition(" (")[0]).parent for name in names})
            case {"event": "job_finished", "job_id": job} | {"event": "job_error", "jobid": job}:
                self.folders.pop(job, None)

    def close(self) -> None:
        """Remove the bars."""
        self.ended.set()
        self.thread.join()
        with tqdm.get_lock():
            for bar in self.bars.values():
                bar.clear()  # close returns the cursor to column 0 at position 0 alone
                bar.close()
        super().close()

    def draw(self) -> None:
        """Draw a bar per running training, with the end of its label in a narrow terminal."""
        states = {path: state for job in [*self.folders.values()] for path in job if (state := progress.read(path))}
        with tqdm.get_lock():  # tqdm alone lets lines through while a bar appears or vanishes: after its text
            for folder in self.bars.keys() - states.keys():
                bar = self.bars.pop(folder)
                bar.clear()
                bar.close()
            for folder, state in states.items():
                if folder not in self.bars:
                    self.bars[folder] = tqdm(total=state.rounds, dynamic_ncols=True, leave=False)
                bar, text = self.bars[folder], str(state).removeprefix("round ").replace(" accuracy", "")
                bar.desc = state.run[-max(12, (bar.ncols or 80) - len(text) - 14) :]
                bar.n, bar.bar_format = state.round, "{desc} {percentage:3.0f}%|{bar}| " + text
                bar.refresh()

    def _watch(self) -> None:
        while not self.ended.wait(0.5):  # seconds
            self.draw()
