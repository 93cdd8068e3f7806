"""Progress of a training: lines for its log, and its present state in a file, for whoever looks on from outside."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import sys
import time
from pathlib import Path
from typing import Any

#: File in a run's folder, there while it is trained (and after a SIGKILL); progress bars and `flatfed status` read it.
STATE = "progress.json"


def duration(seconds: float) -> str:
    """Return a time as a person would say it: ``48 s``, ``12 min``, ``3.4 h``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def told(state: dict[str, Any]) -> str:
    """Return what a state says, in words: round, accuracy, seconds of a round, time left."""
    accuracy = ""
    if state["accuracy"] is not None:
        accuracy = f"{state['unseen']} accuracy {100 * state['accuracy']:.2f} %  "
    left = "time left not known yet"
    if state["pace"] is not None:
        left = f"{state['pace']:.3g} s a round  {duration(state['pace'] * (state['rounds'] - state['round']))} left"
    return f"round {state['round']}/{state['rounds']}  {accuracy}{left}"


def read(folder: Path) -> dict[str, Any] | None:
    """Return the state of the training in ``folder``, None where there is none.

    ``run`` is its name; ``round`` of ``rounds`` are done; ``accuracy`` (0 to 1, or None) is that on ``unseen`` images
    ("test", "validation"); ``pace``: seconds of a round since this session began, None before its first; on ``host``.
    """
    try:
        found = json.loads((folder / STATE).read_text(encoding="utf-8"))
        return {key: found[key] for key in ("run", "round", "rounds", "pace", "accuracy", "unseen", "host")}
    except (OSError, ValueError, TypeError, KeyError):  # gone since, or a disk so full that it is empty
        return None


def spent(seconds: dict[str, float]) -> str:
    """Return what a finished run has spent its ``seconds`` on, by name, over all of its sessions."""
    whole = sum(seconds.values())
    parts = ", ".join(f"{name} {100 * part / whole:.0f} %" for name, part in seconds.items() if whole)
    return f"done in {duration(whole)}" + (f": {parts}" if parts else "")


class Progress:
    """Reports the rounds of one run, ``done`` of them made before: on standard error, and in its ``folder``.

    On a terminal the line rewrites itself. In a log there is one every 15 s, later one each time 2 % of the run's time
    have gone by: some three hundred for days of training. ``with`` it: the file is removed at the end.
    """

    interval = 15.0  # seconds between two lines of a log, at least
    share = 0.02  # of the time since the beginning, between two lines of a log, at least
    pulse = 1.0  # seconds between two states in the folder, at least

    def __init__(self, label: str, rounds: int, done: int, folder: Path):
        self.label = label
        self.folder = folder
        self.first = done
        self.began = time.monotonic()
        self.logged = self.noted = float("-inf")
        self.terminal = sys.stderr.isatty()
        self.state: dict[str, Any] = {
            **{"run": label, "round": done, "rounds": rounds, "pace": None, "accuracy": None, "unseen": None},
            "host": socket.gethostname(),
        }

    def __enter__(self) -> Progress:
        self._note()
        return self

    def __exit__(self, *_: object) -> None:
        if self.terminal:
            print(file=sys.stderr)
        with contextlib.suppress(OSError):
            (self.folder / STATE).unlink()

    def round(self, done: int, line: dict[str, Any] | None) -> None:
        """Report that ``done`` rounds are finished; ``line`` is the round's line of metrics, if it has one."""
        if line is not None:
            unseen = "validation" if "validation_accuracy" in line else "test"
            self.state |= {"unseen": unseen, "accuracy": line[f"{unseen}_accuracy"]}
        now = time.monotonic() - self.began
        self.state |= {"round": done, "pace": now / max(1, done - self.first)}
        if now - self.noted >= self.pulse:
            self.noted = now
            self._note()
        text = f"{self.label}: {told(self.state)}"
        if self.terminal:
            columns = shutil.get_terminal_size().columns
            print(f"\r\033[K{text[: columns - 1]}", end="", file=sys.stderr, flush=True)
        elif done == self.state["rounds"] or now - self.logged >= max(self.interval, self.share * now):
            self.logged = now
            print(text, file=sys.stderr, flush=True)

    def _note(self) -> None:
        """Write the state, whole; a disk that takes no more is not this file's to complain of."""
        part = self.folder / f".{STATE}.part"
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            part.write_text(json.dumps(self.state), encoding="utf-8")
            part.replace(self.folder / STATE)
