"""What a training asks a cluster for: minutes and memory, from a measured plan, or wide guesses without one."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from flatfed.errors import ConfigError
from flatfed.experiment.model import Run

#: Minutes and megabytes where no plan says better: a round at paper scale takes seconds here and a minute there.
GUESSES = {"paper": (1440, 16_000), "preview": (10, 4_000)}

#: How much more than was measured is asked for: other nodes are slower, and other jobs run beside this one.
MARGIN = 1.5

#: The least that is asked for, minutes and megabytes: Python, torch and CUDA take as much before the first round.
LEAST = (10, 4_000)


#: (scale, protocol) -> (minutes, megabytes) to ask for.
Requests = Mapping[tuple[str, str], tuple[int, int]]


def read(path: str | None) -> Requests:
    """Return what to ask for by the file ``path`` that ``flatfed plan --json`` wrote; nothing is known without one.

    :raises ConfigError: it cannot be read, or is no plan.
    """
    if path is None:
        return {}
    try:
        plan = json.loads(Path(path).read_text(encoding="utf-8"))
        return {
            (plan["scale"], protocol): (
                max(LEAST[0], math.ceil(MARGIN * float(measured["minutes"]))),
                max(LEAST[1], math.ceil(MARGIN * float(measured["memory_bytes"]) / 1e6)),
            )
            for protocol, measured in plan["requests"].items()
        }
    except OSError as error:
        raise ConfigError(f"config/config.yaml: plan: {path}: cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        wanted = "a file that `python -m flatfed plan --all --json FILE` wrote is wanted"
        raise ConfigError(f"config/config.yaml: plan: {path}: {wanted} ({error!r})") from None


def for_runs(runs: Sequence[Run], planned: Requests, attempt: int) -> tuple[int, int]:
    """Return (minutes, megabytes) for ``runs`` that train in one process: as much as one after the other.

    Attempts after the first ask for twice as much, and no more: they also follow preemptions, and a cluster refuses
    what no partition of it has.
    """
    each = [planned.get((run.scale, run.protocol), GUESSES[run.scale]) for run in runs]
    times = min(attempt, 2)
    return times * sum(minutes for minutes, _ in each), times * sum(megabytes for _, megabytes in each)
