"""The runs of every shipped table and figure: their number, and a digest of the settings that decide their results.

A changed digest makes finished runs stale. Accept it: `pytest tests/plan/test_planned_runs.py --update-golden`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flatfed.files import digest_json
from flatfed.plan import at_scale, numbers
from flatfed.plan.number import runs_of
from shipped import EXP

STORED = Path(__file__).with_name("planned_runs.json")


def planned(scale: str) -> dict[str, list]:
    """Return table or figure -> number of its runs, and the digest of their paths and deciding settings."""
    requested = EXP.existing(scale, EXP.everything)
    runs = {name: runs_of(numbers.numbers(EXP, scale, name)) for name in requested.tables}
    runs |= {name: at_scale.figure(EXP, scale, name).runs for name in requested.figures}
    return {
        name: [len(of_name), digest_json({path: run.config.deciding for path, run in sorted(of_name.items())})[:16]]
        for name, of_name in runs.items()
    }


@pytest.mark.parametrize("scale", ["preview", "paper"])
def test_planned_runs_have_the_same_settings(scale, request):
    stored = json.loads(STORED.read_text())
    if request.config.getoption("--update-golden"):
        STORED.write_text(json.dumps(stored | {scale: planned(scale)}, indent=1) + "\n")
    else:
        assert planned(scale) == stored[scale]
