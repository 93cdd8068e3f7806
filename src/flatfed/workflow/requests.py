"""What a training asks a cluster for: minutes and memory, from a plan that was measured, else wide guesses."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flatfed.errors import ConfigError
from flatfed.experiment.model import Run

#: Minutes and megabytes where no plan says better: a round at paper scale takes seconds here and a minute there.
GUESSES = {"paper": (1440, 16_000), "preview": (10, 4_000)}

#: How much more than was measured is asked for: other nodes are slower, other jobs run beside.
MARGIN = 1.5

#: The least that is asked for: Python, torch and CUDA take as much before the first round.
LEAST = (10, 4_000)


def read(path: str | None) -> Mapping[str, Any]:
    """Return the requests in the file ``path`` that ``flatfed plan --json`` wrote, scale -> protocol -> request.

    :raises ConfigError: it cannot be read, or is no plan.
    """
    if path is None:
        return {}
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        return {
            found["scale"]: {
                name: {key: float(request[key]) for key in ("minutes", "memory_bytes")}
                for name, request in found["requests"].items()
            }
        }
    except OSError as error:
        raise ConfigError(f"config/config.yaml: plan: {path}: cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        written = "a file that `python -m flatfed plan --all --json FILE` wrote is wanted"
        raise ConfigError(f"config/config.yaml: plan: {path}: {written} ({error!r})") from None


def of(run: Run, known: Mapping[str, Any], attempt: int) -> tuple[int, int]:
    """Return (minutes, megabytes) for ``run``; every ``attempt`` after the first asks for twice as much.

    For no more: attempts also follow preemptions, and what no partition gives is refused.
    """
    minutes, megabytes = GUESSES[run.scale]
    request = known.get(run.scale, {}).get(run.protocol)
    if request is not None:
        minutes = max(LEAST[0], math.ceil(MARGIN * request["minutes"]))
        megabytes = max(LEAST[1], math.ceil(MARGIN * request["memory_bytes"] / 1e6))
    times = min(attempt, 2)
    return minutes * times, megabytes * times


def together(runs: Sequence[Run], known: Mapping[str, Any], attempt: int) -> tuple[int, int]:
    """Return (minutes, megabytes) for ``runs`` that train in one process: as much as one after the other."""
    each = [of(run, known, attempt) for run in runs]
    return sum(minutes for minutes, _ in each), sum(megabytes for _, megabytes in each)
