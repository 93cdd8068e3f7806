"""What a job asks a cluster for: minutes and memory, by a measured plan or wide guesses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flatfed.errors import ConfigError, DataError, described
from flatfed.experiment.model import Run
from flatfed.files import read_as
from flatfed.forms import reader

#: Minutes and megabytes where no plan says better: a round at paper scale takes seconds here and a minute there.
GUESSES = {"paper": (1440, 16_000), "preview": (10, 4_000)}

#: How much more than was measured is asked for: other nodes are slower, and other jobs run beside this one.
MARGIN = 1.5

#: The least that is asked for, minutes and megabytes: Python, torch and CUDA take as much before the first round.
LEAST = (10, 4_000)

#: (scale, protocol) -> (minutes, megabytes) to ask for.
Requests = Mapping[tuple[str, str], tuple[int, int]]


@dataclass(frozen=True, kw_only=True)
class ProtocolCost:
    """The minutes of a protocol's longest run, and the bytes of memory that its largest takes on the host."""

    minutes: float
    memory_bytes: float


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What ``flatfed plan --json`` writes, as far as it is read here: what was measured of protocols at a ``scale``."""

    scale: str
    requests: dict[str, ProtocolCost]


def read(path: str | None) -> Requests:
    """Return what to ask for by the file ``path`` that ``flatfed plan --json`` wrote; nothing is known without one.

    :raises ConfigError: it cannot be read, or is no plan.
    """
    if path is None:
        return {}
    try:
        plan = read_as(reader(Plan), path, "a plan", "`python -m flatfed plan --all --json FILE` writes one")
    except (FileNotFoundError, DataError) as error:
        text = described(error) if isinstance(error, OSError) else error
        raise ConfigError(f"plan (config/config.yaml, or --config): {text}") from None
    return {
        (plan.scale, protocol): (
            max(LEAST[0], math.ceil(MARGIN * of.minutes)),
            max(LEAST[1], math.ceil(MARGIN * of.memory_bytes / 1e6)),
        )
        for protocol, of in plan.requests.items()
    }


def for_runs(runs: Sequence[Run], planned: Requests, attempt: int) -> tuple[int, int]:
    """Return (minutes, megabytes) for ``runs`` that train in one process: as much as one after the other.

    Attempts after the first ask for twice as much, and no more: they also follow preemptions, and a cluster refuses
    what no partition of it has.
    """
    each = [planned.get((run.scale, run.protocol), GUESSES[run.scale]) for run in runs]
    times = min(attempt, 2)
    return times * sum(minutes for minutes, _ in each), times * sum(megabytes for _, megabytes in each)
