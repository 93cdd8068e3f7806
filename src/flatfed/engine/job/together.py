"""All seeds of a run in one process: each in a thread of its own, one of which runs at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from flatfed.engine.job import interruption
from flatfed.engine.job.train import train
from flatfed.engine.speed.seeds import Meeting
from flatfed.errors import DataError


def train_together(
    descriptions: Sequence[dict[str, Any]],
    dataset: str | os.PathLike[str],
    partitions: Sequence[str | os.PathLike[str]],
    outs: Sequence[str | os.PathLike[str]],
    **common: Any,
) -> None:
    """Train runs that differ in their seed alone in one process, all their clients as rows of one matrix.

    Every run has its ``partitions`` file and its folder of ``outs``, where it leaves the same files as alone; it gets
    the same numbers, too (:mod:`flatfed.engine.speed.seeds`). One that is finished already is left as it is. Where one
    cannot go on, the others write their checkpoints and stop. ``common``: the other arguments of :func:`train`.

    Raises DataError where they differ in more, and what :func:`train` raises.
    """
    first = descriptions[0]
    for other in descriptions[1:]:
        differing = [key for key in {**first, **other} if key != "seed" and first.get(key) != other.get(key)]
        if differing:
            raise DataError(f"runs that train together may differ in their seed alone, not in {', '.join(differing)}")

    def work(description: dict[str, Any], *files: str | os.PathLike[str]) -> Callable[[Meeting], None]:
        return lambda meeting: train(description, dataset, *files, meeting=meeting, **common)

    side_by_side([work(*run) for run in zip(descriptions, partitions, outs, strict=True)])


def side_by_side(works: Sequence[Callable[[Meeting], None]]) -> None:
    """Do all ``works``, each a run that joins the meeting it is given; raise what the first that failed raised.

    Where one fails, the others are asked to stop as by a signal, so that they leave checkpoints. To have been stopped
    is no failure where another failed, as to write its checkpoint.
    """
    meeting = Meeting(len(works))
    errors: list[BaseException] = []

    def attend(work: Callable[[Meeting], None]) -> None:
        with meeting.turn:
            try:
                work(meeting)
            except BaseException as error:
                errors.append(error)
                interruption.ask()
            finally:
                meeting.leave()

    threads = [threading.Thread(target=attend, args=(work,)) for work in works]
    with interruption.heeded():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if errors:
        raise next((error for error in errors if not isinstance(error, interruption.Stopped)), errors[0])
