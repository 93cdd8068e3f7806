"""The printed numbers: untouched, and each of them looked up by one cell of its table.

Findings of errata on them are recomputed from config/reference; the others stay as they are.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

import made
from flatfed import cli, plan
from flatfed.commands import configuration
from flatfed.errors import ConfigError
from flatfed.plan import at_scale, numbers
from repository import ROOT
from shipped import EXP

PAPERS = ("fedsmoo2023", "fedlesam2024", "fedsam2022", "dfedsam2023")

#: SHA-256 of the printed numbers, which nobody improves: of the papers, and of others (studies/sources.yaml).
PRINTED = "181bb863d4810a7fdc980a27be5fc1cd6fdb246f73af79ee7d073db37641e964"

LINE = (ROOT / "config/reference/fedsmoo2023_T1.csv").read_text().splitlines()[1]

#: Tables that are one of the four papers' own, not another view of one.
OWN = [name for name, table in EXP.tables.items() if table.document.reference == name and name.startswith(PAPERS)]


#: Printed settings -> protocols of their data sets.
SETTINGS = {
    "fedsam2022_T3": ["fedsam-emnist", "fedsam-cifar10", "fedsam-cifar100"],
    "fedsmoo2023_T4": ["fedsmoo-cifar10", "fedsmoo-cifar100"],
    "fedsmoo2023_T5": [],
    "fedlesam2024_T6": ["fedsmoo-cifar10", "fedsmoo-cifar100", "fedlesam-officehome", "fedlesam-domainnet"],
}


def test_printed_numbers_are_untouched():
    paths = sorted((ROOT / "config" / "reference").glob("*.csv"))
    printed = b"".join(path.name.encode() + path.read_bytes() for path in paths)
    assert hashlib.sha256(printed).hexdigest() == PRINTED

    own = {name for name in EXP.references if name.startswith(PAPERS)}
    assert {*OWN, *SETTINGS} == own and sum(len(EXP.references[name].numbers) for name in own) == 1624


@pytest.fixture
def changed(tmp_path):
    """A function that replaces a text of a table's printed numbers in a copy of config/, whose parent it returns."""

    def change(table: str, old: str, new: str) -> Path:
        path = made.small(tmp_path, table, "errata") / f"config/reference/{table}.csv"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))
        return tmp_path

    return change


@pytest.mark.parametrize(
    ("table", "old", "new", "message"),
    [
        ("fedsmoo2023_T1", "79.52,0.13", "7952,0.13", "line 2: value: '7952' is not allowed; expected 0 to 100"),
        ("fedsmoo2023_T1", LINE, f"{LINE}\n{LINE}", "line 3: this number is given twice"),
        ("fedsmoo2023_T6", "68,259", "68,0", "line 2: value: '0' is not allowed; expected 1 to inf"),
        ("fedlesam2024_T4", ",0.87,", ",-0.87,", None),
        ("fedsmoo2023_T2", "3842.3", "-3842.3", None),
    ],
)
def test_a_printed_number_is_one_that_its_quantity_can_be(changed, table, old, new, message):
    """Differences, ratios and traces may be negative."""
    root = changed(table, old, new)
    if message is None:
        assert plan.load(root).references[table].numbers
    else:
        with pytest.raises(ConfigError, match=f"^config/reference/{table}.csv: {message}"):
            plan.load(root)


def test_check_lists_the_printed_numbers_that_no_cell_uses(changed, capsys, monkeypatch):
    """None of the shipped files; files that no table names are read by studies alone."""
    assert numbers.unused(EXP) == []
    root = changed("fedsmoo2023_T1", "dirichlet,0.6,100,0.1,fedavg", "dirichlet,0.7,100,0.1,fedavg")
    assert numbers.unused(plan.load(root)) == ["config/reference/fedsmoo2023_T1.csv: line 2"]
    monkeypatch.setattr(configuration, "HOME", root)
    monkeypatch.chdir(root)
    assert cli.main(["check"]) == 0
    expected = r"1 printed number in no cell .*: config/reference/fedsmoo2023_T1.csv: line 2$"
    assert re.search(expected, capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize("table", OWN)
def test_every_printed_number_is_looked_up_by_one_cell(table):
    """A preview has no printed number."""
    paper, preview = (at_scale.table(EXP, scale, table) for scale in ("paper", "preview"))
    used = [id(number) for number in paper.paper.values()]
    assert len(used) == len(set(used))
    assert {*used} == {id(number) for number in EXP.references[table].numbers.values()}
    assert not preview.paper
    metrics = [{(number.column, number.row, number.metric) for number in shown.numbers} for shown in (paper, preview)]
    assert metrics[0] == metrics[1]


def test_data_sets_and_clients_are_the_printed_ones():
    compared = 0
    for table, names in SETTINGS.items():
        for protocol in names:
            of_data, catalog = EXP.catalog.dataset("paper", protocol), EXP.catalog
            facts = dict(zip(("image_channels", "image_height", "image_width"), of_data.shape, strict=True))
            facts |= {"train_samples": of_data.train, "test_samples": of_data.test, "classes": of_data.classes}
            facts |= {"domains": len(of_data.domains or []) or None, "total_samples": of_data.train + of_data.test}
            facts["clients"] = catalog.split_settings("paper", protocol, "dir0.6-100-p20").partition.clients
            for line in EXP.references[table].lines:
                same = line.dataset == catalog.settings("paper", protocol).dataset
                if same and line.variant != "second":  # the paper does not explain it
                    assert facts[line.metric] == (float(line.value) if line.value else None), (table, line)
                    compared += 1
    assert compared == 6 + 12 + 24


@pytest.mark.parametrize(("kind", "algorithm"), [("sgd_type", "mofedsam"), ("proxy_type", "fedsmoo")])
def test_hyper_parameters_are_the_printed_choice(kind, algorithm):
    training, parameters = EXP.catalog.hyperparameters("paper", "fedsmoo-cifar10", algorithm)
    best = {line.metric: line for line in EXP.references["fedsmoo2023_T5"].lines if line.variant == f"{kind};best"}
    values = {
        "hp_local_learning_rate": training["learning_rate"],
        "hp_learning_rate_decay": training["learning_rate_decay"],
        "hp_sam_learning_rate": parameters["rho"],
        "hp_client_level_momentum_alpha": parameters.get("alpha"),
        "hp_penalized_coefficient_beta": 1 / parameters["penalty"] if "penalty" in parameters else None,
        # The proxy type's servers use an average and a dual variable, and no rate; the paper prints 1.
        "hp_global_learning_rate": parameters.get("server_learning_rate", 1.0),
    }
    printed = {metric: float(line.value) if line.value else None for metric, line in best.items()}
    assert values == pytest.approx(printed)


@pytest.mark.parametrize(
    ("table", "column", "row", "value"),
    [
        ("fedsmoo2023_T1", "cifar10-path3-100", "fedavg", 74.08),
        ("fedsmoo2023_T6", "cifar10-dir0.1-100.rounds_to_target-t2", "fedavg", None),
        ("fedsmoo2023_T7", "path3-100.seconds_per_round_speedup", "fedavg", 1.76),
        ("dfedsam2023_T1", "cifar100-iid-100-norep.generalization_error", "dfedavg", 632.91),
        ("dfedsam2023_T2", "dir0.6-100-norep-full", "dfedsam_mgs", 88.20),
    ],
)
def test_numbers_read_off_the_papers(table, column, row, value):
    assert at_scale.table(EXP, "paper", table, [column], row).paper[column, row].value == value


TABLES = {name: table.lines for name, table in EXP.references.items()}


@pytest.fixture(scope="module")
def errata():
    return EXP.errata


def test_every_flag_of_the_reference_has_a_line_and_its_table(errata):
    flags = {(table, name) for table in TABLES for name in errata.flags(table)}
    assert all(table in errata.entries[name].tables for table, name in flags)
    assert errata.flags("fedsmoo2023_T6").keys() == {"B1", "B3"}
    assert [*errata.of_table("fedsmoo2023_T7")] == ["B4", "B14"], "an agreement is no note"
