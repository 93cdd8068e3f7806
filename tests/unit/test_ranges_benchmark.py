"""benchmarks/ranges.py and against.py: by hand, and that docs/performance.md has what the published reports have."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def row(ours, stacked, over, **changed):
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
        "ratio": {"sequential": {"loader": over}, "stacked": {"loader": 0.5}},
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


def test_bfloat16_is_held_against_ours_in_float32_by_the_same_yardstick(tmp_path):
    plain, low = ({"ratio": {"sequential": {"resident": ratio}, "stacked": {"resident": 0.1}}} for ratio in (1.2, 1.8))
    seconds = {"resident": {"median": 2.0}, "sequential": {"median": 1.0}, "stacked": {"median": 9.0}}
    both = [
        row(1.0, 9.0, 0.0, precision=precision, seconds=seconds, **ratio)
        for precision, ratio in (("float32", plain), ("bfloat16", low))
    ]
    shown = ranges(occasion(tmp_path / "1", *both)).stdout
    assert "| over resident | over ours in float32 |" in shown
    assert "| W1 | 2 | FedAvg | sequential | 2.000 | 1.000 | 1.80 | 1.50 |" in shown


def test_shares_are_medians_of_the_occasions(tmp_path):
    for name, share in (("1", 0.2), ("2", 0.4)):
        phases = {"sequential": {"forward and backward": 1 - share, "rest": share}, "stacked": {}}
        occasion(tmp_path / name, row(1.0, 3.0, 2.0, phases=phases, evaluation={"share": share / 2}))
    shown = ranges(tmp_path / "1", tmp_path / "2").stdout
    assert "|  | precision | algorithm | forward and backward | rest | evaluation |" in shown
    assert "| W1 | float32 | FedAvg | 70.0 | 30.0 | 15.0 |" in shown


def sized(algorithm, kind="scaling", **changed):
    return {"kind": kind, "workload": "W3-10", "algorithm": algorithm, "changed": {}, "parameters": 1898, **changed}


def test_scaling_and_seeds_together(tmp_path):
    rows = []
    for algorithm, seconds in (("fedavg", 0.01), ("fedsmoo", 0.02)):
        of = {"seconds": {"stacked": {"median": seconds}, "sequential": {"median": 1.0}}, "clients": 10, "total": 100}
        more = {**of, "clients": 30, "changed": {"clients a round": 30}}
        both = {"alone": {"median": 3 * seconds}, "together": {"median": seconds}}
        rows += [sized(algorithm, **of), sized(algorithm, **more), sized(algorithm, "seeds", seeds=4, seconds=both)]
        rows.append(sized(algorithm, **{**more, "workload": "cnn_tiny"}))
    shown = ranges(occasion(tmp_path / "1", row(1.0, 3.0, 2.0), *rows)).stdout
    for line in (
        "| clients a round (W3, 100 in all) | 10 | 10 | 20 |",
        "| clients a round (W3, 100 in all) | 30 | 10 | 20 |",
        "| clients in all (W3, 10 a round) | 100 | 10 | 20 |",
        "| model (2 clients, 2 steps of 50) | cnn_tiny, 1,898 parameters | 10 | 20 |",
        "| 4 | 3.00 | 3.00 |",
    ):
        assert line in shown.splitlines(), line


def against(*arguments):
    command = [sys.executable, "benchmarks/against.py", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def process(folder, name, commit, ratio, **changed):
    """Write the report of one process: its factor over the yardstick."""
    folder.mkdir(exist_ok=True)
    ratios = {"sequential": {"loader": 9.0, "resident": ratio}, "stacked": {"loader": 9.0, "resident": 0.1}}
    sessions = [{"peak": {}, "commit": f"{commit}0000", "host": {"processor": "a CPU"}}]
    rows = [row(1.0, 9.0, 0.0, ratio=ratios, **changed)]
    (folder / name).write_text(json.dumps({"sessions": sessions, "rows": rows}))


def test_an_earlier_commit_is_held_against_process_by_process(tmp_path):
    for turn, (before, plain, low) in enumerate([(1.0, 1.2, 1.8), (1.25, 1.5, 2.5), (1.0, 1.4, 1.6)]):
        folder = tmp_path / str(turn // 2)  # two occasions
        process(folder, f"{turn}-old.json", "abc", before)
        process(folder, f"{turn}-new.json", "def", plain)
        process(folder, f"{turn}-low.json", "def", low, precision="bfloat16")
    assert against("abc", tmp_path / "0", tmp_path / "1").stdout.splitlines() == [
        "| processor | workload | precision | pairs | FedAvg |",
        "| --- | --- | --- | --- | --- |",
        "| a CPU | W1 | float32 | 3 | 1.20 to 1.40, **1.20** |",
        "| a CPU | W1 | bfloat16 | 3 | 1.60 to 2.00, **1.80** |",
    ]
    done = against("012", tmp_path / "0")
    assert done.returncode == 1 and "wants reports of 012 and of a later commit" in done.stderr
