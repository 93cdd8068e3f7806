"""The printed numbers: untouched, and each of them looked up by one cell of its table."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

import made
from flatfed import cli, plan
from flatfed.commands import configuration
from flatfed.errors import ConfigError
from flatfed.plan import numbers, reference
from flatfed.plan.metrics import METRICS
from repository import ROOT
from shipped import EXP

PAPERS = ("fedsmoo2023", "fedlesam2024", "fedsam2022", "dfedsam2023")

#: SHA-256 of the printed numbers, which nobody improves: of the papers, and of others (studies/sources.yaml).
PRINTED = "c08f1ca9d400cadde37d60a62e9b230c739c8005badd13621bdd33e7be07d24d"

LINE = (ROOT / "config/reference/fedsmoo2023_T1.csv").read_text().splitlines()[1]

#: Tables that are one of the four papers' own, not another view of one.
OWN = [name for name, table in EXP.tables.items() if table.document.reference == name and name.startswith(PAPERS)]


def test_printed_numbers_are_untouched():
    paths = sorted((ROOT / "config" / "reference").glob("*.csv"))
    printed = b"".join(path.name.encode() + path.read_bytes() for path in paths)
    assert hashlib.sha256(printed).hexdigest() == PRINTED

    own = {name for name in EXP.references if name.startswith(PAPERS)}
    assert {*OWN} == own and sum(len(EXP.references[name].numbers) for name in own) == 1624


@pytest.fixture
def changed(tmp_path):
    """A function that replaces a text of a table's printed numbers in a copy of config/, whose parent it returns."""

    def change(table: str, old: str, new: str) -> Path:
        made.edited(tmp_path, "splits.yaml", lambda content: None)
        path = tmp_path / f"config/reference/{table}.csv"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))
        return tmp_path

    return change


@pytest.mark.parametrize(
    ("table", "old", "new", "message"),
    [
        ("fedsmoo2023_T1", "79.52,0.13", "7952,0.13", "line 2: value: '7952' is not allowed; expected 0 to 100"),
        ("fedsmoo2023_T1", "79.52,0.13", "79.52,-0.13", "line 2: std: '-0.13' is not allowed; expected 0 to inf"),
        ("fedsmoo2023_T1", LINE, f"{LINE}\n{LINE}", "line 3: this number is given twice"),
        ("fedsmoo2023_T6", "68,259", "68,0", "line 2: value: '0' is not allowed; expected 1 to inf"),
        ("fedsmoo2023_T7", "13.33", "-13.33", "line 2: value: '-13.33' is not allowed; expected 0 to inf"),
        ("fedlesam2024_T4", ",0.87,", ",-0.87,", None),
        ("fedlesam2024_T7", ",2,,", ",-2,,", None),
        ("fedsmoo2023_T2", "3842.3", "-3842.3", None),
    ],
)
def test_a_printed_number_is_one_that_its_quantity_can_be(changed, table, old, new, message):
    """Differences, ratios and traces may be negative."""
    root = changed(table, old, new)
    if message is None:
        assert reference.read_all(root)[table].numbers
    else:
        with pytest.raises(ConfigError, match=f"^config/reference/{table}.csv: {message}"):
            reference.read_all(root)


def test_check_lists_the_printed_numbers_that_no_cell_uses(changed, capsys, monkeypatch):
    """None of the shipped files; files that no table names are read by studies alone."""
    assert numbers.unused(EXP) == []
    root = changed("fedsmoo2023_T1", "dirichlet,0.6,100,0.1,fedavg", "dirichlet,0.7,100,0.1,fedavg")
    assert numbers.unused(plan.load(root)) == ["config/reference/fedsmoo2023_T1.csv: line 2"]
    monkeypatch.setattr(configuration, "HOME", root)
    assert cli.main(["check"]) == 0
    expected = r"1 printed number in no cell .*: config/reference/fedsmoo2023_T1.csv: line 2$"
    assert re.search(expected, capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize("table", OWN)
def test_every_printed_number_is_looked_up_by_one_cell(table):
    """Cells of both scales have it; facts, such as searched values, are those of the configuration."""
    cells = made.first_numbers(EXP, "paper", table)
    used = [id(cell.paper) for cell in cells if cell.paper is not None]
    assert len(used) == len(set(used))
    assert {*used} == {id(number) for number in EXP.references[table].numbers.values()}
    for paper, preview in zip(cells, made.first_numbers(EXP, "preview", table), strict=True):
        assert paper.paper == preview.paper
        assert (paper.metric, paper.unit) == (preview.metric, preview.unit)
    for cell in cells:
        fact = METRICS[cell.metric].source == "config" and cell.value is not None
        if cell.paper and fact and cell.column != "total_samples":
            assert cell.value == pytest.approx(cell.paper.value), (cell.column, cell.row)


@pytest.mark.parametrize(
    ("table", "column", "row", "value"),
    [
        ("fedsmoo2023_T1", "cifar10-path3-100", "fedavg", 74.08),
        ("fedsmoo2023_T6", "cifar10-dir0.1-100.rounds_to_target-t2", "fedavg", None),
        ("fedsmoo2023_T5", "proxy_type.grid3", "learning_rate_decay", 0.99995),
        ("fedsmoo2023_T7", "path3-100.seconds_per_round_speedup", "fedavg", 1.76),
        ("dfedsam2023_T1", "cifar100-iid-100-norep.generalization_error", "dfedavg", 632.91),
        ("dfedsam2023_T2", "dir0.6-100-norep-full", "dfedsam_mgs", 88.20),
    ],
)
def test_numbers_read_off_the_papers(table, column, row, value):
    assert made.first_number(EXP, "paper", table, column, row).paper.value == value
