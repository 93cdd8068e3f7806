"""The errata: what each finding says of the printed numbers is recomputed from config/reference."""

from __future__ import annotations

import html
import math
import re
from itertools import pairwise
from statistics import fmean

import pytest

import made
from flatfed import algorithms, cli
from flatfed.errors import ConfigError
from flatfed.plan import reference
from flatfed.plan.contradictions import Errata
from flatfed.plan.metrics import METRICS, Reading
from flatfed.plan.reference import comparable
from repository import ROOT

TABLES = {name: table.lines for name, table in reference.read_all(ROOT).items()}
SETTING = ("dataset", "partition", "partition_param", "clients", "participation", "algorithm")
NUMBER = ("metric", "unit", "variant", "target")
HALF = 0.005 + 1e-9  # of the last of two decimals


@pytest.fixture(scope="module")
def errata():
    return Errata(ROOT)


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


def key(line, names):
    return tuple(comparable(getattr(line, name)) for name in names)


def rounded(value, line):
    """Return whether ``value`` rounds half up to the printed number of a line."""
    scale = 10 ** len(line.value.partition(".")[2])
    return math.floor(value * scale + 0.5 + 1e-9) / scale == float(line.value)


# Each check yields (whether the numbers fit, where, printed, against) for every number that it compares.


def two_tables(first, second, **fields):
    others = {key(line, SETTING + NUMBER): line for line in TABLES[second]}
    for line in rows(first, **fields):
        if other := others.get(key(line, SETTING + NUMBER)):
            yield printed(line) == printed(other), where(line, "metric"), printed(line), printed(other)


def repeated(table):
    seen = {}
    for line in TABLES[table]:
        other = seen.setdefault(key(line, ("dataset", "partition_param", "algorithm")), line)
        if other is not line:
            against = f"{other.clients} clients: {printed(other)}"
            yield printed(line) != printed(other), where(line), printed(line), against


def targets(tables, reached, finals=None):
    for table in tables:
        accuracies = {key(line, SETTING): line for line in rows(finals or table, metric="test_accuracy")}
        for line in rows(table, metric="rounds_to_target", unit="rounds"):
            if final := accuracies.get(key(line, SETTING)):
                fits = bool(line.value) != reached or (float(final.value) >= float(line.target)) == reached
                shown = f"round {line.value}" if reached else "not reached"
                yield fits, f"{table}: {where(line)}", shown, f"final {printed(final)}"


def text(table, sentences, **fields):
    """Numbers of a paper's text, each of one printed number."""
    for what, (value, selection) in sentences.items():
        (line,) = rows(table, **fields, **selection)
        yield float(line.value) == value, what, f"{value:g}", line.value


def leads(table, what, better, worse, metric, sentences):
    """Numbers of a paper's text, each the difference of two printed numbers."""
    for place, (lead, selection) in sentences.items():
        one, other = (rows(table, metric=metric, algorithm=name, **selection)[0].value for name in (better, worse))
        difference = float(one) - float(other)
        yield abs(difference - lead) <= 1e-9, f"{what}, {place}", f"{lead:g}", f"{one} − {other} = {difference:.4g}"


def order(table, *names, **fields):
    values = {name: number(table, **fields, metric="test_accuracy", algorithm=name) for name in names}
    for better, worse in pairwise(names):
        fits, place = values[better] > values[worse], ", ".join(map(str, (table, *fields.values())))
        yield fits, place, f"{better} > {worse}", f"{values[better]:.2f} < {values[worse]:.2f}"


def slower(tables, partition, **harder):
    for table in tables:
        for line in rows(table, metric="rounds_to_target", partition=partition):
            (other,) = rows(table, metric="rounds_to_target", algorithm=line.algorithm, **harder)
            if line.value and other.value:
                fits = float(line.value) <= float(other.value)
                yield fits, f"{table}: {where(line)}", line.value, f"{other.value} ({other.partition})"


def second(table, *columns, **fields):
    for partition, parameter, underlined in columns:
        column = rows(table, **fields, partition=partition, partition_param=parameter)
        best = sorted(column, key=lambda line: -float(line.value))[1]
        (line,) = (line for line in column if line.algorithm == underlined)
        yield line is best, where(line), line.value, f"{best.algorithm} {best.value}"


def relative_rounds(table, line):
    """Return the rounds of a row over FedAvg's, which a table prints as counts or as ratios."""
    same = {"metric": "rounds_to_target", "target": line.target}
    counts = {other.algorithm: float(other.value) for other in rows(table, **same, unit="rounds")}
    if line.algorithm in counts:
        return counts[line.algorithm] / counts["fedavg"]
    return number(table, **same, unit="x", algorithm=line.algorithm)


def counts(table):
    for line in rows(table, metric="rounds_to_target", unit="rounds"):
        if line.algorithm != "fedavg":
            yield False, where(line), line.value, f"{relative_rounds(table, line):.2f}x"


def wall_clock(tables, within, **fields):
    """Seconds of a round by Table 8, against the same constant for all rows plus what computing takes by ``tables``."""
    seconds = {line.algorithm: float(line.value) for line in rows("fedlesam2024_T8", unit="s")}
    same = {"algorithm": "fedavg", "unit": "rounds", "metric": "rounds_to_target"}
    computing = fmean(
        60 * float(line.value) / number(table, target=line.target, **same)
        for table in tables
        for line in rows(table, metric="compute_time_to_target", unit="minutes", algorithm="fedavg")
    )
    for table in tables:
        for line in rows(table, metric="compute_time_to_target", unit="x", **fields):
            if line.algorithm in seconds and line.algorithm != "fedavg":
                found = seconds[line.algorithm]
                expected = seconds["fedavg"] + computing * (float(line.value) / relative_rounds(table, line) - 1)
                yield abs(expected - found) <= within, f"{table}: {where(line)}", f"{found:.2f}", f"{expected:.2f}"


def means(table, *sources):
    for line in rows(table, metric="mean_test_accuracy"):
        same = {"dataset": line.dataset, "algorithm": line.algorithm, "metric": "test_accuracy"}
        values = [float(other.value) for source in sources for other in rows(source, **same)]
        fits = abs(fmean(values) - float(line.value)) <= HALF
        yield fits, where(line), line.value, f"{fmean(values):.4f} (of {len(values)})"


def gains(table, **bases):
    for line in rows(table, metric="mean_test_accuracy_gain"):
        pair = (line.algorithm, bases[line.algorithm])
        mean, base = (number(table, metric="mean_test_accuracy", dataset=line.dataset, algorithm=name) for name in pair)
        yield abs(mean - base - float(line.value)) <= HALF, where(line), line.value, f"{mean - base:.2f}"


def costs(table):
    same = {"metric": "rounds_to_target", "unit": "rounds"}
    for line in rows(table, metric="communication_cost"):
        if line.value:
            mine, base = (number(table, algorithm=name, **same) for name in (line.algorithm, "fedavg"))
            cost = max(algorithms.load(line.algorithm).communication) * mine / base
            yield rounded(cost, line), where(line), line.value, f"{cost:.3f}"


def declared(table):
    for line in rows(table):
        metric = METRICS[line.metric].function
        mine, base = (metric(Reading(algorithm=algorithms.load(name)())) for name in (line.algorithm, "fedavg"))
        yield mine / base == float(line.value), where(line, "metric"), line.value, f"{mine / base:g}"


def ratios(table):
    for line in rows(table, unit="x"):
        same = {"metric": line.metric, "target": line.target}
        same["unit"] = "rounds" if line.metric == "rounds_to_target" else "s"
        pair = (line.variant.removeprefix("speedup_vs_"), line.algorithm)
        base, mine = (number(table, algorithm=name, **same) for name in pair)
        yield rounded(base / mine, line), where(line, "metric"), line.value, f"{base / mine:.4f}"


def products(table):
    for line in rows(table, metric="total_seconds", unit="s"):
        if line.value:
            seconds = number(table, metric="seconds_per_round", unit="s", algorithm=line.algorithm)
            total = seconds * number(table, metric="rounds_to_target", unit="rounds", algorithm=line.algorithm)
            yield rounded(total, line), where(line), line.value, f"{total:.2f}"


def differences(table):
    for line in rows(table, metric="generalization_error"):
        same = {name: getattr(line, name) for name in (*SETTING[:3], "algorithm", "variant")}
        train, test = (number(table, metric=f"{name}_accuracy", **same) for name in ("train", "test"))
        fits = abs(train - test - float(line.value)) <= 0.005
        yield fits, where(line), line.value, f"{train:.2f} − {test:.2f} = {train - test:.2f}"


def row_of(name):
    """Return the algorithm and the metric of a number of a paper's text."""
    label, part = name.split(", ")
    metric = {"train": "train_accuracy", "validation": "test_accuracy"}.get(part, "generalization_error")
    return {"algorithm": label.lower(), "metric": metric}


IID, D06, D03 = {"partition": "iid"}, {"partition_param": 0.6}, {"partition_param": 0.3}
GAINED = {"IID": (0.43, IID), "Dirichlet 0.6": (1.24, D06), "Dirichlet 0.3": (1.52, D03)}
SAVED = {"IID": (7, IID), "Dirichlet 0.6": (40, D06), "Dirichlet 0.3": (59, D03)}
OF_F1 = {"FedCM, train": 85.26, "FedCM, validation": 54.09, "MoFedSAM, train": 86.02, "MoFedSAM, validation": 55.13}
ERRORS = {"FedSAM, Dirichlet 0.3": (17.26, D03), "DFedSAM, IID": (14.10, IID), "FedAvg, IID": (15.27, IID)}

#: Erratum -> the check of its finding.
CHECKS = {
    "A1": two_tables("fedsam2022_T1", "fedsam2022_T4", dataset="emnist"),
    "A2": two_tables("fedsam2022_T1", "fedsam2022_T5", dataset="cifar100"),
    "A3": text("fedsam2022_T2", {"FedSAM, CIFAR-10, Dirichlet 0.6 (F.1)": (82.55, row_of("FedSAM, validation") | D06)}),
    "A4": (
        *leads("fedsam2022_T2", "accuracy gained", "mofedsam", "mimelite", "test_accuracy", GAINED),
        *leads("fedsam2022_T2", "rounds saved", "mimelite", "mofedsam", "rounds_to_target", SAVED),
    ),
    "A5": text("fedsam2022_T1", {name: (value, row_of(name)) for name, value in OF_F1.items()}, dataset="cifar100"),
    "A6": order("fedsam2022_T2", "mofedsam", "mimelite", "fedcm", **D06),
    "A7": targets(["fedsam2022_T1", "fedsam2022_T2", "fedsam2022_T4", "fedsam2022_T5"], reached=True),
    "A16": slower(["fedsam2022_T2", "fedsam2022_T4", "fedsam2022_T5"], "iid", **D06),
    "B1": targets(["fedsmoo2023_T6"], reached=False, finals="fedsmoo2023_T1"),
    "B2": costs("fedsmoo2023_T3"),
    "B3": targets(["fedsmoo2023_T6"], reached=True, finals="fedsmoo2023_T1"),
    "B4": ratios("fedsmoo2023_T7"),
    "B12": two_tables("fedsmoo2023_T3", "fedsmoo2023_T6", unit="rounds"),
    "B13": products("fedsmoo2023_T7"),
    "C1": repeated("fedlesam2024_T3"),
    "C2": means("fedlesam2024_T4", "fedlesam2024_T2", "fedlesam2024_T3"),
    "C3": two_tables("fedlesam2024_T5", "fedsmoo2023_T6", unit="rounds"),
    "C4": counts("fedlesam2024_T9"),
    "C5": wall_clock(["fedlesam2024_T5"], 2.0, algorithm="fedlesam_d"),
    "C6": wall_clock(["fedlesam2024_T5", "fedlesam2024_T9"], 2.0),
    "C8": second(
        "fedlesam2024_T2",
        ("dirichlet", 0.1, "fedlesam_s"),
        ("pathological", 6, "fedsmoo"),
        ("pathological", 3, "fedsmoo"),
        dataset="cifar10",
        clients=100,
    ),
    "C11": two_tables("fedlesam2024_T2", "fedsmoo2023_T1"),
    "C12": gains("fedlesam2024_T4", fedlesam="fedavg", fedlesam_s="scaffold", fedlesam_d="feddyn"),
    "C13": declared("fedlesam2024_T7"),
    "D1": differences("dfedsam2023_T1"),
    "D2": text(
        "dfedsam2023_T1",
        {name: (value, row_of(name) | split) for name, (value, split) in ERRORS.items()},
        dataset="cifar10",
    ),
}


@pytest.mark.parametrize("name", CHECKS)
def test_a_finding_is_what_the_printed_numbers_say(errata, name):
    finding, compared = errata.entries[name].finding, list(CHECKS[name])
    assert finding.compared == len(compared)
    assert [(one.where, one.printed, one.against) for one in finding.contradictions] == [
        tuple(texts) for fits, *texts in compared if not fits
    ]


def test_every_finding_is_checked_and_an_agreement_alone_finds_nothing(errata):
    findings = {name: one for name, one in errata.entries.items() if one.finding}
    assert findings.keys() == CHECKS.keys()
    assert all(bool(one.finding.contradictions) == (one.kind != "agreement") for one in findings.values())


def test_every_flag_of_the_reference_has_a_line_and_its_table(errata):
    flags = {(table, name): line for table in TABLES for name, line in errata.flags(table).items()}
    assert all(table in errata.entries[name].tables and line[-1] == "." for (table, name), line in flags.items())
    assert {name for _, name in flags} == {"A1", "A2", "A3", "A7", "B1", "B2", "B3", "C1", "C2", "C3", "C4", "C5", "D1"}
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
