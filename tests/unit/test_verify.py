"""``flatfed verify`` on cells made by hand: two columns of FedSMOO's Table 1 beside the printed numbers."""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path

import pytest

import made
from flatfed import cli
from flatfed.commands import configuration
from flatfed.commands.verify import lines
from flatfed.experiment import cell_specs, table_specs
from flatfed.tables import cells as cells_module
from flatfed.tables.cell import Cell
from flatfed.tables.filled_table import fill
from flatfed.tables.verification import compare_table

UPPER = ["cifar10-dir0.6-100", "cifar10-path3-100"]


@pytest.fixture(scope="module")
def experiment():
    return configuration.load(None)


@pytest.fixture
def write(tmp_path, monkeypatch, experiment):
    """Return write(column, scale, {row: values}): cells of so many seeds beside the printed numbers."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text(
        "scale: paper\ntables:\n  - {table: fedsmoo2023_T1, columns: [" + ", ".join(UPPER) + "]}\nfigures: []\n"
    )

    def write_column(column: str, scale: str, values: dict[str, list[float]]) -> None:
        for row, each in values.items():
            cell = cell_specs.cell(experiment, scale, "fedsmoo2023_T1", column, row)
            value, paper = sum(each) / len(each), cell.paper
            content = {
                **{key: getattr(cell, key) for key in ("table", "column", "row", "scale", "metric", "target")},
                "unit": "fraction", "printed_unit": "percent", "relative": None, "base": None, "compare": "values",
                "status": "ok", "value": value, "spread": statistics.stdev(each), "n": len(each), "values": each,
                "seeds": list(range(1, len(each) + 1)), "paper_value": paper.value / 100,
                "paper_spread": paper.spread / 100, "paper_decimals": None, "runs": [], "paper_note": paper.note,
                "reached": None, "rounds": 800,
                "difference": round(value - paper.value / 100, 10) if scale == "paper" else None,
            }  # fmt: skip
            cells[scale, column, row] = Cell(**content)

    def compute(spec, so_far=False):
        absent = {"problems": ["no run"], "status": "missing", "n": 0, "scale": spec.scale}
        absent |= {"column": spec.column, "row": spec.row}
        missing = replace(made.cell([None]), paper_value=0.5, **absent)
        return cells.get((spec.scale, spec.column, spec.row), missing)

    cells: dict[tuple[str, str, str], Cell] = {}
    monkeypatch.setattr("flatfed.tables.cells.compute", compute)
    return write_column


#: The paper's Dirichlet 0.6 column (79.52, 77.08, 81.81, 82.97, 83.22, 80.10, 84.13, 84.55), each within half a point,
#: twelve seeds a tenth apart and alike for all rows.
WOBBLE = [0.003, 0.004] * 6
CLOSE = {
    row: [number + each for each in WOBBLE]
    for row, number in zip(
        ("fedavg", "fedadam", "scaffold", "fedcm", "feddyn", "fedsam", "mofedsam", "fedsmoo"),
        (0.7952, 0.7708, 0.8181, 0.8297, 0.8322, 0.8010, 0.8413, 0.8455),
        strict=True,
    )
}


def verify(*arguments: str) -> int:
    return cli.main(["verify", "--config", "config.yaml", *arguments])


def test_a_column_that_agrees_and_one_that_is_missing(write, capsys):
    write(UPPER[0], "paper", CLOSE)
    assert verify() == 0
    said = capsys.readouterr().out
    assert "fedsmoo2023_T1, paper scale: 8 of 8 cells agree, 0 differ, 8 missing" in said
    assert f"  {UPPER[0]}: 8 of 8 agree; rank correlation 1.00\n" in said
    assert "order: mean rank correlation 1.00; 24 of 24 claims held (chance gives 12; 24 clearly)" in said
    assert "missing  fedavg, fedadam, scaffold, fedcm, feddyn, fedsam, mofedsam, fedsmoo: no run" in said
    assert verify("--strict") == 1, "a missing cell does not stand"


def test_a_cell_that_differs_and_a_claim_that_is_reversed(write, capsys):
    """FedSMOO three points low in one of two columns: in the mean of both below FedDyn, by the same in every seed."""
    values = {**CLOSE, "fedsmoo": [0.8155 + each for each in WOBBLE]}
    for column in UPPER:
        write(column, "paper", CLOSE)
    write(UPPER[0], "paper", values)
    assert verify() == 0
    said = capsys.readouterr().out
    line = "differs  fedsmoo: ours 81.90 ± 0.05 (n = 12), paper 84.55 ± 0.14: −2.65, allowed 1.00"
    assert line in said
    assert "reversed clearly fedsmoo > feddyn (2 columns, p = " in said and "fedsmoo > fedcm" not in said
    assert verify("--strict") == 1


def test_strict_passes_a_table_that_stands(write):
    for column, close in ((UPPER[0], CLOSE),):
        write(column, "paper", close)
    Path("config.yaml").write_text(Path("config.yaml").read_text().replace(f", {UPPER[1]}", ""))
    assert verify("--strict") == 0


def test_preview_verifies_nothing_and_says_why(write, capsys):
    write(UPPER[0], "preview", {row: [value - 0.3 for value in values] for row, values in CLOSE.items()})
    assert verify("--scale", "preview") == 0
    said = "fedsmoo2023_T1, preview scale: 8 of 16 cells made; this scale is not verified\n"
    assert capsys.readouterr().out == said
    assert verify("--scale", "preview", "--strict") == 1, "no printed number agrees"


def test_a_table_of_which_nothing_is_printed_says_so(write, experiment):
    write(UPPER[0], "paper", CLOSE)
    args = ("paper", "fedsmoo2023_T1", UPPER)
    result = compare_table(fill(table_specs.table_spec(experiment, *args), cell_specs.cells(experiment, *args)), set())
    assert list(lines(result)) == ["fedsmoo2023_T1, paper scale: no printed numbers"]
    assert result.stands


def test_an_unknown_table_is_named(write, capsys):
    assert verify("fedsmoo2023_T11") == 2
    assert "unknown table 'fedsmoo2023_T11'; did you mean 'fedsmoo2023_T1'?" in capsys.readouterr().err


def test_runs_of_another_version_are_noted(write, capsys, monkeypatch):
    write(UPPER[0], "paper", CLOSE)
    compute = cells_module.compute
    outdated = {"p/s/a/seed1": "engine is version 0, now 1"}
    monkeypatch.setattr(cells_module, "compute", lambda spec, **so_far: replace(compute(spec), outdated=outdated))
    assert verify() == 0
    note = "  Of other code than the present (the .csv names the runs): 1 run: engine is version 0, now 1.\n"
    assert capsys.readouterr().out.endswith(note)
