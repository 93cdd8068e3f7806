"""The errata: findings on printed numbers are recomputed from config/reference; the others stay as they are."""

from __future__ import annotations

import html
import math
import re
from statistics import fmean

import pytest
import yaml

import made
from flatfed import algorithms, cli
from flatfed.errors import ConfigError
from flatfed.files import digest_json
from flatfed.plan import reference
from flatfed.plan.contradictions import Errata
from flatfed.plan.reference import comparable
from repository import ROOT

TABLES = {name: table.lines for name, table in reference.read_all(ROOT).items()}
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
