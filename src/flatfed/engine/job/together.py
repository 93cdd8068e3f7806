"""All seeds of a run in one process."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
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
    """Train runs that differ only in their seed in one process, all clients as rows of one matrix.

    Each run has a file of ``partitions`` and a folder of ``outs``, with the same files and numbers as alone. Finished
    runs stay as they are. If one run fails, the others write checkpoints and stop. ``common``: further arguments of
    :func:`train`, whose errors it raises.

    :raises DataError: the runs differ in more than the seed.
    """
    first, keys = descriptions[0], dict.fromkeys(key for description in descriptions for key in description)
    differing = [key for key in keys if key != "seed" and any(d.get(key) != first.get(key) for d in descriptions)]
    if differing:
        raise DataError(f"runs that train together may only differ in their seed, not in {', '.join(differing)}")

    def work(description: dict[str, Any], *files: str | os.PathLike[str]) -> Callable[[Meeting], None]:
        return lambda meeting: train(description, dataset, *files, meeting=meeting, **common)

    side_by_side([work(*run) for run in zip(descriptions, partitions, outs, strict=True)])


def side_by_side(works: Sequence[Callable[[Meeting], None]]) -> None:
    """Do all ``works``, each a run that joins the meeting; raise the first error.

    After an error the others stop as by a signal. A Stopped is raised only without other errors.
    """
    meeting = Meeting(len(works))
    errors: list[BaseException] = []

    def attend(work: Callable[[Meeting], None]) -> None:
        with meeting.turn:
            try:
                work(meeting)
            except BaseException as error:
                errors.append(error)
                interruption.request_stop()
            finally:
                meeting.leave()

    with interruption.signals_noted(), ThreadPoolExecutor(len(works)) as pool:
        pool.map(attend, works)
    if errors:
        raise next((error for error in errors if not isinstance(error, interruption.Stopped)), errors[0])
