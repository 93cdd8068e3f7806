"""The printed numbers: untouched, and each of them looked up by one cell of its table.

Findings of errata on them are recomputed from config/reference; the others stay as they are.
"""

from __future__ import annotations

import hashlib
import html
import math
import re
from pathlib import Path
from statistics import fmean

import pytest
import yaml

import made
from flatfed import algorithms, cli, plan
from flatfed.commands import configuration
from flatfed.errors import ConfigError
from flatfed.files import digest_json
from flatfed.plan import numbers, reference
from flatfed.plan.metrics import METRICS
from flatfed.plan.reference import Errata, comparable
from repository import ROOT
from shipped import EXP

PAPERS = ("fedsmoo2023", "fedlesam2024", "fedsam2022", "dfedsam2023")

#: SHA-256 of the printed numbers, which nobody improves: of the papers, and of others (studies/sources.yaml).
PRINTED = "7ddb88db7473c0d824b420044f3ddc625b470d6cc3532b5cc9c921b94625b0cf"

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
    """Facts, such as searched values, are those of the configuration. A preview has no printed number."""
    cells = made.first_numbers(EXP, "paper", table)
    used = [id(cell.paper) for cell in cells if cell.paper is not None]
    assert len(used) == len(set(used))
    assert {*used} == {id(number) for number in EXP.references[table].numbers.values()}
    for paper, preview in zip(cells, made.first_numbers(EXP, "preview", table), strict=True):
        assert preview.paper is None
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


TABLES = {name: table.lines for name, table in EXP.references.items()}
SETTING = ("dataset", "partition", "partition_param", "clients", "participation", "algorithm")
NUMBER = ("metric", "unit", "variant", "target")

#: Errata with a side that is read off a paper or estimated, and two agreements. Their findings have this digest.
READ = {"A3", "A4", "A5", "A6", "A16", "B13", "C1", "C4", "C5", "C6", "C8", "C12", "C13", "D2"}
DIGEST = "7d9c87a571c5b09e685f63c1961caacd890b76164b39a35538c6123d8bd04f9b"


@pytest.fixture(scope="module")
def errata():
    return Errata(ROOT)


def key(line, names):
    return tuple(comparable(getattr(line, name)) for name in names)


def rows(table, **fields):
    """Return the lines of a printed table with these fields."""
    return [line for line in TABLES[table] if key(line, fields) == tuple(map(comparable, fields.values()))]


def number(table, **fields):
    (line,) = rows(table, **fields)
    return float(line.value)


def where(line, *more):
    """Return what a finding calls a line: algorithm, dataset, partition, clients, target."""
    partition = f"{line.partition} {line.partition_param}".strip()
    clients = f"{line.clients} clients at {float(line.participation):.0%}" if line.participation else ""
    target = f"target {line.target} %" if line.target else ""
    texts = [line.algorithm, line.dataset, partition, clients, target, *(getattr(line, name) for name in more)]
    return ", ".join(text for text in texts if text)


def printed(line):
    return (line.value or "–") + (f" ± {line.std}" if line.std else "")


def rounded(value, line):
    """Return whether ``value`` rounds half up to the printed number of a line."""
    scale = 10 ** len(line.value.partition(".")[2])
    return math.floor(value * scale + 0.5 + 1e-9) / scale == float(line.value)


def near(value, line):
    """Return whether ``value``, of numbers of two decimals, is the printed number of a line."""
    return abs(value - float(line.value)) <= 0.005 + 1e-9


# Each check yields (whether the numbers fit, where, printed, against) for every number that it compares.


def two_tables(first, second, **fields):
    others = {key(line, SETTING + NUMBER): line for line in TABLES[second]}
    for line in rows(first, **fields):
        if other := others.get(key(line, SETTING + NUMBER)):
            yield printed(line) == printed(other), where(line, "metric"), printed(line), printed(other)


def targets(tables, reached, finals=None):
    for table in tables:
        accuracies = {key(line, SETTING): line for line in rows(finals or table, metric="test_accuracy")}
        for line in rows(table, metric="rounds_to_target", unit="rounds"):
            if final := accuracies.get(key(line, SETTING)):
                fits = bool(line.value) != reached or (float(final.value) >= float(line.target)) == reached
                shown = f"round {line.value}" if reached else "not reached"
                yield fits, f"{table}: {where(line)}", shown, f"final {printed(final)}"


def means(table, *sources):
    for line in rows(table, metric="mean_test_accuracy"):
        same = {"dataset": line.dataset, "algorithm": line.algorithm, "metric": "test_accuracy"}
        values = [float(other.value) for source in sources for other in rows(source, **same)]
        yield near(fmean(values), line), where(line), line.value, f"{fmean(values):.4f} (of {len(values)})"


def costs(table):
    same = {"metric": "rounds_to_target", "unit": "rounds"}
    for line in filter(lambda line: line.value, rows(table, metric="communication_cost")):
        mine, base = (number(table, algorithm=name, **same) for name in (line.algorithm, "fedavg"))
        cost = max(algorithms.load(line.algorithm).communication) * mine / base
        yield rounded(cost, line), where(line), line.value, f"{cost:.3f}"


def ratios(table):
    for line in rows(table, unit="x"):
        same = {"metric": line.metric, "target": line.target}
        same["unit"] = "rounds" if line.metric == "rounds_to_target" else "s"
        pair = (line.variant.removeprefix("speedup_vs_"), line.algorithm)
        base, mine = (number(table, algorithm=name, **same) for name in pair)
        yield rounded(base / mine, line), where(line, "metric"), line.value, f"{base / mine:.4f}"


def differences(table):
    for line in rows(table, metric="generalization_error"):
        same = {name: getattr(line, name) for name in (*SETTING[:3], "algorithm", "variant")}
        train, test = (number(table, metric=f"{name}_accuracy", **same) for name in ("train", "test"))
        yield near(train - test, line), where(line), line.value, f"{train:.2f} − {test:.2f} = {train - test:.2f}"


#: Erratum -> the check of its finding.
CHECKS = {
    "A1": two_tables("fedsam2022_T1", "fedsam2022_T4", dataset="emnist"),
    "A2": two_tables("fedsam2022_T1", "fedsam2022_T5", dataset="cifar100"),
    "A7": targets(["fedsam2022_T1", "fedsam2022_T2", "fedsam2022_T4", "fedsam2022_T5"], reached=True),
    "B1": targets(["fedsmoo2023_T6"], reached=False, finals="fedsmoo2023_T1"),
    "B2": costs("fedsmoo2023_T3"),
    "B3": targets(["fedsmoo2023_T6"], reached=True, finals="fedsmoo2023_T1"),
    "B4": ratios("fedsmoo2023_T7"),
    "B12": two_tables("fedsmoo2023_T3", "fedsmoo2023_T6", unit="rounds"),
    "C2": means("fedlesam2024_T4", "fedlesam2024_T2", "fedlesam2024_T3"),
    "C3": two_tables("fedlesam2024_T5", "fedsmoo2023_T6", unit="rounds"),
    "C11": two_tables("fedlesam2024_T2", "fedsmoo2023_T1"),
    "D1": differences("dfedsam2023_T1"),
}


@pytest.mark.parametrize("name", CHECKS)
def test_a_finding_is_what_the_printed_numbers_say(errata, name):
    finding, compared = errata.entries[name].finding, list(CHECKS[name])
    assert finding.compared == len(compared)
    assert [(one.where, one.printed, one.against) for one in finding.contradictions] == [
        tuple(texts) for fits, *texts in compared if not fits
    ]


def test_the_other_findings_are_untouched_and_an_agreement_alone_finds_nothing(errata):
    findings = {name: one for name, one in errata.entries.items() if one.finding}
    assert findings.keys() == CHECKS.keys() | READ
    content = yaml.safe_load((ROOT / "config/errata.yaml").read_text(encoding="utf-8"))
    assert digest_json({name: content[name]["finding"] for name in READ}) == DIGEST

    assert all(bool(one.finding.contradictions) == (one.kind != "agreement") for one in findings.values())


def test_every_flag_of_the_reference_has_a_line_and_its_table(errata):
    flags = {(table, name) for table in TABLES for name in errata.flags(table)}
    assert all(table in errata.entries[name].tables for table, name in flags)
    assert errata.flags("fedsmoo2023_T6").keys() == {"B1", "B3"}
    assert [line.split(":")[0] for line in errata.notes("fedsmoo2023_T7")] == ["B4", "B14"], "an agreement is no note"


def test_a_flag_without_an_entry_is_named(tmp_path):
    root = made.edited(tmp_path, "errata.yaml", lambda entries: entries.update(B33=entries.pop("B3")))
    with pytest.raises(ConfigError, match=r"fedsmoo2023_T6\.csv: flag: unknown erratum 'B3'"):
        Errata(root).flags("fedsmoo2023_T6")


def test_the_page_holds_every_entry_and_every_number(errata, tmp_path):
    assert cli.main(["errata", "--out", str(tmp_path / "errata.html")]) == 0
    page = html.unescape((tmp_path / "errata.html").read_text(encoding="utf-8"))
    for name, one in errata.entries.items():
        assert f'id="{name}"' in page and one.says[1:] in page
    assert "<td>632.91</td><td>99.68 − 36.77 = 62.91</td>" in page and "5 of 48 recomputed numbers do not fit" in page
    assert page.count("<section") == page.count("</section>") == len(errata.entries)
    assert not re.search(r"<script [^>]*src|<link|https?://", page), "self-contained"
