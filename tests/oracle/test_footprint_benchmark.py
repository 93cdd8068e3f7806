"""benchmarks/footprint.py in a small form."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "footprint.py"


def test_the_state_of_all_clients_is_in_the_peak(tmp_path):
    """40,000 clients of two vectors of 1,898 numbers are 607 MB, which four active ones would not fill."""
    words = ["--workload", "W3-10", "--clients", "100", "40000", "--steps", "1", "--device", "cpu"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *words], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    few, many = json.loads(done.stdout)
    assert (few["clients"], many["clients"]) == (100, 40_000)
    state = 40_000 * 2 * 4 * few["row"]
    assert many["client_state_bytes"] == state and many["client_state"] in ("memory", "file")
    assert few["peak_memory_bytes"] < 1e9 < few["peak_memory_bytes"] + state
    assert abs(many["peak_memory_bytes"] - few["peak_memory_bytes"] - state) < 0.2 * state
    assert list(tmp_path.iterdir()) == [], "the checkpoint goes with the process"
