"""benchmarks/precision.py: pairs by hand, what it goes on with and refuses, and the tables of the page."""

from __future__ import annotations

import csv
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import precision
from precision import Interval

from flatfed.runs import host

ROOT = Path(__file__).parents[2]
SMALL = ("fedavg", "--splits", "path3-100", "--seeds", "1", "--last", "2")


@pytest.fixture(autouse=True)
def units(monkeypatch):
    monkeypatch.setattr(host, "instructions", lambda: ("avx512f", "avx512_bf16"))


def bench(monkeypatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["precision.py", *map(str, arguments)])
    precision.main()


def refused(monkeypatch, capsys, *arguments: str) -> str:
    """Return what a call says that ends."""
    with pytest.raises(SystemExit) as ended:
        bench(monkeypatch, *arguments)
    assert ended.value.code not in (0, None)
    return capsys.readouterr().err + str(ended.value.code)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("precision")


def test_it_trains_three_runs_records_them_and_goes_on(monkeypatch, capsys, folder):
    where = ("--runs", folder / "runs", "--record", folder / "record.csv")
    bench(monkeypatch, *SMALL, *where)
    table = capsys.readouterr().out
    with open(folder / "record.csv", newline="") as file:
        (line,) = csv.DictReader(file)
    assert (line["algorithm"], line["floor"], line["threads"]) == ("fedavg", "other executor", "1")
    for way in ("float32", "bfloat16", "noise floor"):
        out = folder / "runs/path3-100/fedavg/1" / way.replace(" ", "-")
        with open(out / "metrics.csv", newline="") as file:
            last = [float(each["test_accuracy"]) for each in csv.DictReader(file)][-2:]
        assert float(line[way]) == pytest.approx(100 * sum(last) / 2, abs=1e-4)

    def never(*_args, **_kwargs):
        raise AssertionError("trained again")

    monkeypatch.setattr(precision, "train", never)
    bench(monkeypatch, *SMALL, *where)
    assert capsys.readouterr().out == table
    bench(monkeypatch, *SMALL, "--runs", folder / "runs", "--record", folder / "another.csv")
    assert capsys.readouterr().out == table


def test_runs_that_are_there_are_looked_at(monkeypatch, capsys, folder):
    where = ("--runs", folder / "runs", "--record", folder / "none.csv")
    assert 'protocol is "fedsmoo-cifar10"' in refused(
        monkeypatch, capsys, *SMALL, *where, "--protocol", "fedsmoo-cifar10~effects"
    )
    assert "threads is 1, here 2; another --runs folder" in refused(monkeypatch, capsys, *SMALL, *where, "--threads", 2)
    assert "has 20 evaluations, --last asks for 21" in refused(monkeypatch, capsys, *SMALL, *where, "--last", 21)
    read = precision.records.read
    monkeypatch.setattr(precision.records, "read", lambda path: replace(read(path), diverged_at=3))
    assert "diverged in round 3" in refused(monkeypatch, capsys, *SMALL, *where)
    assert not (folder / "none.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--seeds", "0"), "'0' is not a whole number from 1 on"),
        (("--last", "0"), "'0' is not a whole number from 1 on"),
        (("--threads", "2", "--floor", "threads"), "the same as --threads, which is no noise floor"),
        (("fedavgg",), "did you mean 'fedavg'"),
        (("--protocol", "fedsmoo"), "fedsmoo-cifar10"),
    ],
)
def test_bad_arguments_end_before_the_first_training(monkeypatch, capsys, tmp_path, arguments, said):
    assert said in refused(monkeypatch, capsys, *arguments, "--runs", tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_a_cpu_without_units_ends_before_the_first_training_but_prints_a_whole_record(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(host, "instructions", lambda: ("avx2",))
    assert "has no units for it" in refused(monkeypatch, capsys, *SMALL, "--runs", tmp_path / "runs")
    bench(monkeypatch, "--record", ROOT / "results/published/precision/preview.csv")
    assert "| 40 differences |" in capsys.readouterr().out


def test_a_file_that_is_no_record_is_named(monkeypatch, capsys, tmp_path):
    (tmp_path / "other.csv").write_text("seed,float32\n1,50\n")
    said = refused(monkeypatch, capsys, *SMALL, "--record", tmp_path / "other.csv")
    assert f"{tmp_path / 'other.csv'}: has the columns seed, float32, not scale, protocol, split" in said


def test_pairs_by_hand(monkeypatch, capsys, tmp_path):
    """Two algorithms, two seeds of one split: Student's 97.5 % points are 3.182 for four numbers, 12.706 for two."""
    keys = ["scale", "protocol", "split", "algorithm", "seed", "threads", "floor", "last"]
    lines = [",".join([*keys, "float32", "bfloat16", "noise floor", "processor"])]
    for algorithm, seed, low in (("fedavg", 1, 50.1), ("fedavg", 2, 50.3), ("fedsam", 1, 50.3), ("fedsam", 2, 50.5)):
        of = f"preview,fedsmoo-cifar10,path3-100,{algorithm},{seed},1,other executor,5"
        lines.append(f"{of},50.0,{low},50.0,a CPU")
    (tmp_path / "record.csv").write_text("\n".join(lines) + "\n")
    named = ("fedavg", "fedsam", "--splits", "path3-100", "--seeds", "2")
    bench(monkeypatch, *named, "--record", tmp_path / "record.csv")
    shown = capsys.readouterr().out.splitlines()
    none = "+0.00 [+0.00, +0.00]"
    assert shown[2:] == [
        f"| path3-100 | fedavg | 50.00 | +0.10, +0.30 | +0.20 [-1.07, +1.47] | {none} |",
        f"| path3-100 | fedsam | 50.00 | +0.30, +0.50 | +0.40 [-0.87, +1.67] | {none} |",
        f"| all | all | | 4 differences | +0.30 [+0.04, +0.56] | {none} |",
        f"| all | all | | 2 means of a split and seed | +0.30 [-0.97, +1.57] | {none} |",
        "",
        f"does not pass: +0.30 [-0.97, +1.57] is not within half a point, and the floor is {none}; computed by a CPU",
    ]


@pytest.mark.parametrize(
    ("gap", "floor", "words"),
    [
        (Interval(0.3, 0.2, 0.4), Interval(0.0, 0.0, 0.0), "passes: +0.30 [+0.20, +0.40] lies within half a point"),
        (Interval(0.1, -0.5, 0.7), Interval(0.2, -0.5, 0.9), "passes: +0.10 [-0.50, +0.70] holds zero"),
        (Interval(0.1, -0.5, 0.7), Interval(0.2, -0.1, 0.5), "does not pass"),
        (Interval(0.6, 0.1, 1.1), Interval(0.0, -2.0, 2.0), "does not pass"),
    ],
)
def test_when_it_passes(gap, floor, words):
    assert precision.verdict(gap, floor).startswith(words)
