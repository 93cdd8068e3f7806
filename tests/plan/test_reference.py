"""The printed numbers: untouched, and each of them looked up by one cell of its table."""

from __future__ import annotations

import csv
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

#: SHA-256 of the printed numbers: nobody improves them.
PRINTED = {
    "dfedsam2023_T1": "8a5ef3973e5b0fadc8b846928e91a3cf08fea4c7c757f9877ec3842d613e5f8d",
    "dfedsam2023_T2": "bdd11daf11054798accf37da5130817a90de0b9cd9fa3fbfe7b001a4ed5800f9",
    "dfedsam2023_T3": "b39895f9fd5c1201a9739625a4db2733ba9504949ba82dc0e1cfd2d6063c4d78",
    "fedlesam2024_T2": "b1d7f2739f0414cc90a0bd5c5e00736fd8200abf07ccf125c22235f122324f62",
    "fedlesam2024_T3": "5ad008ca301276d9f0897f92e66fc404e9d055af43216aa77f37c310b7e17f24",
    "fedlesam2024_T4": "2d28c64cf454c07ebe46a9d5186507d0777d49aead830629588bad37066dbe60",
    "fedlesam2024_T5": "2af4bae6fdc4257a0ac1c98e0bfd0077d51d70ec0bdbaebe0dc52dab91b0262e",
    "fedlesam2024_T6": "ff01d10f4524ffad3b50f7e80a725d62b215c45ee612df21f8845e1b4c28fef6",
    "fedlesam2024_T7": "c9b2b1081fb496bfa68e9ee699e003b3b58cbc28903847d8e6c0e70c8c26efdb",
    "fedlesam2024_T8": "8b3b42ccd69bf591195a4e3d2674d7a777236fc915665d7a3fffb5272c94030c",
    "fedlesam2024_T9": "50711361d5c2cf7bb6bde4f22e9cefcf2744190442cf917bebf9048799a2af5c",
    "fedsam2022_T1": "e057a961d71b55ec8762eab0f132a6a0771bff397fe970004e3826068ee04850",
    "fedsam2022_T2": "dc282c5c84a1c6986098cea101562cbc1d68b89ca10d7e27d3cf9fea9be158a9",
    "fedsam2022_T3": "4ab6ddc8d9fc5bc055e8e1cc1c24d9d7ed6fc7d6fb39e61a66705b0beb31fa99",
    "fedsam2022_T4": "032a1d7fb52244e8ac5008fb10c332eecb02643ffe953c60b7fd6d0ed5414c8e",
    "fedsam2022_T5": "7ede1852df56548e226796785d773111b53972a35fb1c9cd5575bc3a88ca6325",
    "fedsmoo2023_T1": "84b53a91e1cc7926443b023c2189e432ce685dc1c2bcb363b694ef033d7b0f63",
    "fedsmoo2023_T2": "72190de7977af2269b669c20d2dd8d6607855d1e0d4b705a470f673f2ef1ecf7",
    "fedsmoo2023_T3": "d86a6c1d7a31fd04100db7c26dd65c4700170cd1412b5c9ca926082791af33fe",
    "fedsmoo2023_T4": "eec3c9f2299dade83cb5b024cb11a64727285b8b746e07d32398fc3dd20f28a5",
    "fedsmoo2023_T5": "4e0a85ea46bc11fe07523b9f775ffcd75bf93afc86af7d81743291035f96b461",
    "fedsmoo2023_T6": "d0c9f128fd71233b0f1d0a66c68a0a65b8e5e99fd29874a230246b4c8fb7a657",
    "fedsmoo2023_T7": "bd9872e5060ccdf6f94c45b27ad288068c9f6c4c6983a24f6e55456696a2e7bf",
    "fedsmoo2023_T8": "5eed1a9ce36732ecd3a5235a60685c6db5f529012a226f42d16dd49c885fbe29",
}

#: What others print of the papers' cells (studies/sources.yaml).
OTHERS = {
    "fedwmsam2025_T1": "04720a0d6331a9e8f627782bb75767b586d19a8c92d04c745abff0bea48f08e6",
    "fedwmsam2025_T1_best": "12065efffaa46aa78cf0bb35c196100a74a48c6487ab53042ebd1cb6295e5867",
    "flsam2025_README_CNN": "b5031f1999804e2db573737f3ead8a0dca4e0bbcafa4257e88bd32297fe319ed",
    "flsam2025_README_RN18": "74c01989181f280e60db20bee118528d81d4567aef31b2c99d113cedc5a03c79",
    "flsimulator2024_README": "25eea3f54ac44a642cfb3520579592c27862748b76d12dc6b991ea499ede0c85",
}

#: Tables that are one of the four papers' own, not another view of one.
OWN = [name for name, table in EXP.tables.items() if table.document.reference == name and name in PRINTED]


def test_printed_numbers_are_untouched():
    files = {path.stem: path.read_bytes() for path in (ROOT / "config" / "reference").glob("*.csv")}
    assert {name: hashlib.sha256(content).hexdigest() for name, content in files.items()} == PRINTED | OTHERS
    assert sorted(OWN) == sorted(PRINTED)
    assert sum(len(EXP.references[name].numbers) for name in PRINTED) == 1624


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


def test_a_reference_file_with_a_cell_twice_is_refused(changed):
    line = next(csv.reader([(ROOT / "config/reference/fedwmsam2025_T1.csv").read_text().splitlines()[1]]))
    root = changed("fedwmsam2025_T1", "\n", "\n" + ",".join(line) + "\n")
    with pytest.raises(ConfigError, match=r"fedwmsam2025_T1.csv: line 3: this number is given twice"):
        reference.read_all(root)


@pytest.mark.parametrize(
    ("table", "old", "new", "message"),
    [
        ("fedsmoo2023_T1", "79.52,0.13", "7952,0.13", "line 2: value: '7952' is not allowed; expected 0 to 100"),
        ("fedsmoo2023_T1", "79.52,0.13", "79.52,-0.13", "line 2: std: '-0.13' is not allowed; expected 0 to inf"),
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
    assert numbers.unused(EXP) == [] and {*EXP.references} - {*PRINTED} == {*OTHERS}
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
        ("fedsmoo2023_T1", "cifar100-path10-100", "fedadam", 32.58),
        ("fedsmoo2023_T1", "cifar10-dir0.6-200", "fedavg", 75.90),
        ("fedsmoo2023_T6", "cifar10-dir0.1-100.rounds_to_target-t1", "fedavg", 259),
        ("fedsmoo2023_T6", "cifar100-path10-100.rounds_to_target-t2", "fedavg", 732),
        ("fedsmoo2023_T6", "cifar100-dir0.1-200.rounds_to_target-t1", "fedavg", 438),
        ("fedsmoo2023_T6", "cifar10-dir0.1-100.rounds_to_target-t2", "fedavg", None),
        ("fedsmoo2023_T3", "path3-100.communication_cost_ratio-t2", "fedsmoo", 0.53),
        ("fedsmoo2023_T5", "proxy_type.grid3", "learning_rate_decay", 0.99995),
        ("fedsmoo2023_T7", "path3-100.seconds_per_round_speedup", "fedavg", 1.76),
        ("fedsmoo2023_T8", "path3-100", "fedspeed", 80.13),
        ("fedlesam2024_T7", "stored_memory", "fedlesam_d", 4),
        ("fedlesam2024_T8", "dir0.6-100", "fedlesam", 20.99),
        ("fedlesam2024_T9", "path3-100.compute_time_to_target-t2", "fedavg", 80),
        ("dfedsam2023_T1", "cifar100-iid-100-norep.generalization_error", "dfedavg", 632.91),
        ("dfedsam2023_T2", "dir0.6-100-norep-full", "dfedsam_mgs", 88.20),
        ("dfedsam2023_T3", "cifar10-shards2-100", "dispfl", 47.61),
    ],
)
def test_numbers_read_off_the_papers(table, column, row, value):
    paper = made.first_number(EXP, "paper", table, column, row).paper
    assert paper.value == value
    assert table != "fedsmoo2023_T1" or paper.spread in (0.22, 0.21)


def test_decentralised_rows_have_a_topology_and_the_same_partition():
    cells = made.first_numbers(EXP, "paper", "dfedsam2023_T1", ["cifar10-dir0.6-100-norep.test_accuracy"])
    rows = {cell.row: cell.runs[0].config.as_json() for cell in cells}
    assert {row for row, about in rows.items() if "topology" not in about} == {"fedavg", "fedsam"}
    assert rows["dfedsam"]["topology"] == {"graph": "clique", "neighbours": 10}
    assert rows["dfedsam"]["partition"] == rows["fedavg"]["partition"]
    assert rows["dpsgd"]["local_epochs"] == 1 and rows["dfedavg"]["local_epochs"] == 5


def test_base_rows_are_paired_seed_by_seed():
    column = "path3-100.rounds_to_target_speedup-t2"
    for number in numbers.numbers(EXP, "paper", "fedsmoo2023_T3", [column], "fedsmoo"):
        assert (number.relative, number.base, number.unit) == ("speedup", "fedavg", "x")
        (run,), (base,) = number.runs, number.base_runs
        assert run.path.replace("fedsmoo/seed", "fedavg/seed") == base.path


def test_runs_are_shared_across_tables_and_papers():
    """580 configurations make every table: FedSMOO's 129, 304 more for FedLESAM, FedSAM's 63 and DFedSAM's 84."""
    seen: set[tuple[str, str, str]] = set()
    new = {}
    papers = ("fedsmoo2023", "fedlesam2024", "fedsam2022", "dfedsam2023")
    for table in sorted(OWN, key=lambda name: (papers.index(name.partition("_")[0]), name)):
        here = {(run.protocol, run.split, run.algorithm) for run in made.table_runs(EXP, "paper", table)}
        new[table] = len(here - seen)
        seen |= here
    assert {table: count for table, count in new.items() if count} == {
        **{"fedsmoo2023_T1": 128, "fedsmoo2023_T8": 1, "fedlesam2024_T2": 64, "fedlesam2024_T3": 240},
        **{"fedsam2022_T1": 21, "fedsam2022_T2": 14, "fedsam2022_T4": 14, "fedsam2022_T5": 14},
        **{"dfedsam2023_T1": 48, "dfedsam2023_T2": 20, "dfedsam2023_T3": 16},
    }
    assert len(seen) == 580
