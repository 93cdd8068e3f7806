"""A table names rows that are one method under two names, and a momentum on top of another one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

import made
from flatfed import algorithms, plan
from flatfed.plan import at_scale
from flatfed.tables import cells, doubts, notes
from repository import ROOT

LINES = {"round": [1, 2], "train_loss": [0.9, 0.7], "test_accuracy": [0.3, 0.5], "seconds": [1.0, 2.0]}
#: Row -> its lines in the runs of seeds 1, 2 and 3. They differ from FedAvg's in a loss, or in the time alone.
ROWS = {
    "fedavg": [LINES, {**LINES, "train_loss": [0.9, 0.6]}, {**LINES, "train_loss": [0.9, 0.5]}],
    "fedsam": [{**LINES, "train_loss": [0.8, 0.7]}, LINES, {**LINES, "test_accuracy": [0.4, 0.5]}],
    "fedmine": [{**LINES, "seconds": [3.0, 4.0]}, {**LINES, "train_loss": [0.9, 0.6]}, LINES],
}


def filled(folder, rows):
    """Return a table with one column and the ``rows``: label -> run folders of its algorithm and lines."""
    labelled = []
    for label, (name, runs) in rows.items():
        paths = [folder / "p" / "s" / name / f"seed{seed}" for seed in (1, 2, 3)]
        for path, lines in zip(paths, runs, strict=True):
            if not path.exists():
                made.run(path, lines)
        about = {"table": "t", "column": "c", "row": name, "scale": "paper", "target": None, "window": 1, "rounds": 2}
        cell = made.summary(**about, metric="test_accuracy", unit="percent", runs=[*map(str, paths)])
        labelled.append((None, SimpleNamespace(label=label), cell))
    return SimpleNamespace(labelled_cells=labelled)


def test_rows_that_are_equal_in_all_rounds_of_a_seed_are_named(tmp_path):
    table = filled(tmp_path, {name.upper(): (name, runs) for name, runs in ROWS.items()})
    assert list(doubts.equal_rows(table)) == [
        "Equal in all rounds of a seed, as one method under two names: FEDAVG and FEDMINE (seed1, seed2)."
    ]


def test_two_rows_of_one_run_are_not_named(tmp_path):
    runs = "fedavg", ROWS["fedavg"]
    assert not list(doubts.equal_rows(filled(tmp_path, {"FedAvg": runs, "the same": runs})))


@pytest.fixture
def own_table(tmp_path, monkeypatch):
    """Return a function that gives the notes of a table of ``rows`` of FL-SAM's protocol, whose momentum is 0.9."""
    monkeypatch.chdir(tmp_path)

    def table(*rows):
        column = {"protocol": "flsam-cifar10", "splits": ["iid-100-norep"]}
        Path("own").mkdir()
        Path("own/mine.yaml").write_text(yaml.safe_dump({"title": "Mine", "rows": [*rows], "columns": [column]}))
        Path("config.yaml").write_text(yaml.safe_dump({"folders": ["own"], "tables": ["mine"], "figures": []}))
        loaded = plan.load(ROOT, {"scale": "preview", **yaml.safe_load(Path("config.yaml").read_text())})
        return notes.gather(cells.fill(at_scale.table(loaded, "preview", "mine")))

    return table


def test_a_table_names_a_declaration_without_effect(outside, own_table):
    outside.write("fedmine", 'class FedMine(FedAvg):\n    beta = Number(0.1, "no method reads it")\n')
    algorithms.load("fedmine")
    assert [note for note in own_table("fedavg", "fedmine") if note.startswith("FedMine: ")] == [
        "FedMine: overrides no hook, so with equal parameters it is FedAvg under another name.",
        "FedMine: no method reads its parameter 'beta'.",
    ]


def test_a_momentum_on_top_of_the_algorithms_own_is_named(own_table, call):
    shown = [note for note in own_table("fedavg", "fedcm", "mofedsam") if "momentum 0.9" in note]
    start = "zero at the start of a client's round"
    assert shown == [
        f"Local training of FedAvg: momentum 0.9, {start}.",
        f"Local training of FedCM, MoFedSAM: momentum 0.9 on top of the algorithm's own, {start}.",
    ]
    status, output, _ = call("check", "--config", "config.yaml", "scale=preview")
    assert status == 0 and [line for line in output.splitlines() if line.startswith("warning: ")] == [
        f"warning: {name}: `momentum` of protocol flsam-cifar10 adds to the algorithm's own momentum"
        for name in ("fedcm", "mofedsam")
    ]


def test_the_shipped_protocol_with_momentum_trains_no_algorithm_with_its_own(call):
    status, output, _ = call("check", "--config", 'tables=["flsam2025_README_CNN"]', "scale=paper")
    assert status == 0 and "28 cells" in output and "warning" not in output
