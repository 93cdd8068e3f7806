"""benchmarks/ranges.py: what stands in docs/performance.md is what the reports of several occasions have."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def row(ours, stacked, ratio, **changed):
    return {
        **{
            "kind": "round",
            "workload": "W1",
            "precision": "float32",
            "threads": 2,
            "algorithm": "fedavg",
            "session": 0,
        },
        "seconds": {"loader": {"median": 2.0}, "sequential": {"median": ours}, "stacked": {"median": stacked}},
        "ratio": {"sequential": {"loader": ratio}, "stacked": {"loader": 0.5}},
        "of_floor": {"sequential": 0.4 + ours / 10, "stacked": 0.1},
        **changed,
    }


def occasion(folder, *rows, peak=None):
    folder.mkdir()
    sessions = [{"peak": peak or {}}]
    (folder / "a.json").write_text(json.dumps({"sessions": sessions, "rows": rows, "unfinished": []}))
    return folder


def ranges(*folders):
    command = [sys.executable, "benchmarks/ranges.py", *map(str, folders)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_seconds_are_medians_and_factors_the_ends_of_their_range(tmp_path):
    one = occasion(tmp_path / "1", row(1.0, 3.0, 2.0), row(1.0, 3.0, 9.0, algorithm="fedsam"), {"kind": "scaling"})
    two = occasion(tmp_path / "2", row(2.0, 3.0, 1.25))
    lines = ranges(one, two).stdout.splitlines()
    assert lines == [
        "float32",
        "",
        "|  | threads | algorithm | executor | loader, s | ours, s | over loader | floor, % |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        "| W1 | 2 | FedAvg | sequential | 2.000 | 1.500 | 1.25 to 2.00 | 50 to 60 |",
        "",
    ]  # what only one occasion measured has no range


def test_the_faster_executor_of_ours_is_shown(tmp_path):
    shown = ranges(occasion(tmp_path / "1", row(3.0, 1.0, 2.0))).stdout
    assert "| stacked | 2.000 | 1.000 | 0.50 | 10 |" in shown


def test_a_floor_of_products_in_another_format_is_left_out(tmp_path):
    low = row(1.0, 3.0, 2.0, precision="bfloat16")
    assert "floor" not in ranges(occasion(tmp_path / "1", low)).stdout
    assert "| 50 |" in ranges(occasion(tmp_path / "2", low, peak={"products": "bfloat16"})).stdout


def test_a_folder_without_reports_is_named(tmp_path):
    (tmp_path / "none").mkdir()
    done = ranges(tmp_path / "none")
    assert done.returncode == 1 and f"{tmp_path / 'none'}: no report of benchmarks/rounds.py in it" in done.stderr


def test_the_published_occasions_can_be_read():
    done = ranges(*sorted((ROOT / "results/published/rounds/epyc-25-17").iterdir()))
    assert done.returncode == 0 and "| W1 | 2 | FedSMOO |" in done.stdout
