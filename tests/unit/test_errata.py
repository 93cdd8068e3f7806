"""The errata: every number of the shared list of discrepancies is found again in the printed tables, and no other."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pandas
import pytest

from flatfed import cli
from flatfed.errors import ConfigError
from flatfed.papers.errata import Errata, recomputed
from flatfed.tables import errata_page

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def errata():
    return Errata(ROOT)


@pytest.fixture(scope="module")
def found(errata):
    return {one.id: one.finding for one in errata.entries if one.finding}


def pairs(finding):
    """Return {row: (printed, against)} of a finding, the row by the first words of its place."""
    return {line.where: (line.printed, line.against) for line in finding.contradictions}


def test_the_five_generalization_errors_that_are_not_train_minus_test(found):
    """Worked out by hand from DFedSAM, Table 1."""
    assert found["D1"].compared == 48
    shown = {(line.where.split(", 100")[0], line.printed, line.against) for line in found["D1"].contradictions}
    assert shown == {
        ("fedsam, cifar10, dirichlet 0.3", "16.26", "99.75 − 82.49 = 17.26"),
        ("dfedavgm, cifar10, dirichlet 0.6", "17.39", "99.95 − 81.56 = 18.39"),
        ("dpsgd, cifar100, iid", "59.55", "92.19 − 33.64 = 58.55"),
        ("dfedavg, cifar100, dirichlet 0.3", "61.94", "99.56 − 27.62 = 71.94"),
        ("dfedavg, cifar100, iid", "632.91", "99.68 − 36.77 = 62.91"),
    }


def test_the_five_means_of_fedlesam_table_4(found):
    assert found["C2"].compared == 24
    assert pairs(found["C2"]) == {
        "fedlesam, officehome": ("78.90", "78.4775 (of 8)"),
        "fedlesam, domainnet": ("71.98", "71.5600 (of 12)"),
        "fedlesam_d, cifar100": ("46.78", "46.7550 (of 8)"),
        "fedlesam_d, officehome": ("77.53", "77.2000 (of 8)"),
        "fedlesam_d, domainnet": ("71.30", "71.1950 (of 12)"),
    }
    assert (len(found["C12"].contradictions), found["C12"].compared) == (0, 12)


def test_tables_that_disagree(found):
    assert {line.where.split(",")[0] for line in found["A1"].contradictions} == {"fedcm", "mimelite", "fedsam"}
    assert {line.where.split(",")[0] for line in found["A2"].contradictions} == {"fedcm", "mimelite"}
    assert [(line.printed, line.against) for line in found["C3"].contradictions] == [("786", "–")]
    assert {line.where.split(",")[0] for line in found["C1"].contradictions} == {"fedlesam", "fedlesam_d"}
    assert (len(found["C1"].contradictions), found["C1"].compared) == (20, 120)
    assert (len(found["C11"].contradictions), found["C11"].compared) == (0, 128)
    assert (len(found["B12"].contradictions), found["B12"].compared) == (0, 8)


def test_targets_and_final_accuracies(found):
    assert [(line.printed, line.against) for line in found["B1"].contradictions] == [
        ("not reached", "final 76.00 ± 0.18"),
        ("not reached", "final 70.49 ± 0.26"),
    ]
    assert [(line.printed, line.against) for line in found["B3"].contradictions] == [
        ("round 744", "final 42.64 ± 0.22"),
        ("round 788", "final 32.58 ± 0.22"),
    ]
    assert {line.where.split(",")[0]: line.printed for line in found["A7"].contradictions} == {
        "fedsam2022_T1: fedrobust": "round 893", "fedsam2022_T2: fedrobust": "round 847",
        "fedsam2022_T2: fedsam": "round 816", "fedsam2022_T5: fedrobust": "round 893",
    }  # fmt: skip


def test_costs_and_ratios(found):
    assert [(line.printed, line.against) for line in found["B2"].contradictions] == [("0.53", "0.537")]
    assert found["B2"].compared == 7
    assert {(line.where.split(",")[0], line.printed, line.against) for line in found["B4"].contradictions} == {
        ("fedadam", "1.70", "1.7081"), ("scaffold", "1.38", "1.3860"), ("scaffold", "1.06", "1.0655"),
        ("fedcm", "1.63", "1.6379"), ("fedcm", "1.51", "1.5184"), ("feddyn", "1.83", "1.8361"),
        ("mofedsam", "1.06", "1.0652"),
    }  # fmt: skip
    assert (len(found["B13"].contradictions), found["B13"].compared) == (0, 7)
    assert [(line.printed, line.against) for line in found["C5"].contradictions] == [("25.70", "20.13")]
    assert found["C5"].compared == 2 and found["C6"].compared == 24
    by_row = {}
    for line in found["C6"].contradictions:
        by_row.setdefault(line.where.split(": ")[1].split(",")[0], []).append((line.printed, line.against))
    assert by_row == {
        "fedlesam_s": [("25.81", "23.12"), ("25.81", "22.95"), ("25.81", "23.14"), ("25.81", "23.09")],
        "fedlesam_d": [("25.70", "20.13")],
    }


def test_computing_inside_the_wall_clock_by_hand(errata):
    """20.34 s of FedAvg are 60 (28/259 + 88/786 + 27/246 + 80/723) / 4 = 6.607 s of computing, and 13.733 s."""
    numbers = errata.numbers
    tables = ["fedlesam2024_T5", "fedlesam2024_T9"]
    given = {"base": "fedavg", "wall_clock": "fedlesam2024_T8", "algorithms": ["fedgamma"]}
    every = recomputed.compute_in_wall_clock(numbers, tables, within=0.0, **given)
    computing = 60 * (28 / 259 + 88 / 786 + 27 / 246 + 80 / 723) / 4
    shares = [1.70 / 0.76, 0.96 / 0.44, 1.57 / (176 / 246), 1.28 / (422 / 723)]
    assert [line.against for line in every.contradictions] == [
        f"{20.34 + computing * (share - 1):.2f}" for share in shares
    ]
    assert {line.printed for line in every.contradictions} == {"29.88"}
    assert "13.7 s and 6.6 s times" in every.against and every.source == "seconds in fedlesam2024_T8"
    assert not recomputed.compute_in_wall_clock(numbers, tables, within=1.8, **given).contradictions


def test_other_costs(found):
    assert len(found["C4"].contradictions) == 12
    assert found["C13"].compared == 24
    assert pairs(found["C13"]) == {
        "fedlesam_d, stored_memory": ("4", "3"), "fedlesam_d, communication_per_round": ("2", "1"),
    }  # fmt: skip


def test_text_against_tables(found):
    assert pairs(found["A3"]) == {"FedSAM, CIFAR-10, Dirichlet 0.6 (F.1)": ("82.55", "83.06")}
    assert pairs(found["A4"]) == {
        "accuracy gained, Dirichlet 0.6": ("1.24", "83.92 − 83.18 = 0.74"),
        "rounds saved, Dirichlet 0.6": ("40", "152 − 124 = 28"),
        "rounds saved, Dirichlet 0.3": ("59", "548 − 490 = 58"),
    }
    assert [line.against for line in found["A6"].contradictions] == ["83.18 < 83.30"]
    assert [(line.printed, line.against) for line in found["A16"].contradictions] == [("129", "124 (dirichlet)")]
    assert [line.against for line in found["C8"].contradictions] == [
        "fedlesam_d 80.08",
        "fedlesam_d 85.62",
        "fedlesam_d 83.00",
    ]
    assert {where: pair[1] for where, pair in pairs(found["D2"]).items()} == {
        "FedSAM, Dirichlet 0.3": "16.26", "DFedSAM, IID": "14.14", "FedAvg, IID": "15.29",
    }  # fmt: skip


def test_an_agreement_finds_nothing_and_everything_else_finds_something(errata):
    for one in errata.entries:
        if one.finding:
            assert bool(one.finding.contradictions) == (one.kind != "agreement"), one.id
            assert one.finding.compared > 0, one.id


def test_every_flag_of_the_reference_has_a_line_and_its_table(errata):
    seen = set()
    for table in errata.numbers.tables:
        for name, line in errata.flags(table).items():
            assert table in errata.document[name]["tables"], (table, name)
            assert line[-1] == "."
            seen.add(name)
    assert seen == {"A1", "A2", "A3", "A7", "B1", "B2", "B3", "C1", "C2", "C3", "C4", "C5", "D1"}
    assert errata.flags("fedsmoo2023_T6").keys() == {"B1", "B3"}
    assert [line.split(":")[0] for line in errata.notes("fedsmoo2023_T7")] == ["B4", "B14"], "an agreement is no note"


def test_no_public_code_made_fedsmoos_numbers_wherever_they_stand(errata):
    """The history of its code stands under each of its tables, and under FedLESAM's, which repeats its cells."""
    tables = [name for name in errata.numbers.tables if any(line[:4] == "B14:" for line in errata.notes(name))]
    smoo = [
        name
        for name, lines in errata.numbers.tables.items()
        if name.startswith("fedsmoo2023") and any(line.algorithm == "fedsmoo" for line in lines)
    ]
    assert sorted(tables) == sorted([*smoo, "fedlesam2024_T2"])


def copy(tmp_path, old, new):
    shutil.copytree(ROOT / "config", tmp_path / "config")
    path = tmp_path / "config" / "errata.yaml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tables: [fedsam2022_T1, fedsam2022_T4]", "tables: [fedsam2022_T11]", "A1.tables[0]: unknown table"),
        ("name: two_tables", "name: two_table", "A1.check: unknown check 'two_table'; did you mean 'two_tables'?"),
        ("kind: arithmetic", "kind: arithmetics", "did you mean 'arithmetic'?"),
        (
            "algorithm: fedsam, partition_param: 0.6}",
            "algorithm: fedsam}",
            "A3.check (said_in_text): 3 rows of config/reference/fedsam2022_T2.csv, not one,",
        ),
    ],
)
def test_mistakes_are_named(tmp_path, old, new, message):
    with pytest.raises(ConfigError) as problem:
        _ = Errata(copy(tmp_path, old, new)).entries
    assert message in str(problem.value)


def test_a_flag_without_an_entry_is_named(tmp_path):
    root = copy(tmp_path, "\nB3:\n", "\nB33:\n")
    with pytest.raises(ConfigError, match=r"fedsmoo2023_T6\.csv: flag: unknown erratum 'B3'"):
        Errata(root).flags("fedsmoo2023_T6")


def test_the_pages_hold_every_entry_and_every_number(errata, tmp_path, capsys):
    assert cli.main(["errata"]) == 0
    text = capsys.readouterr().out
    assert cli.main(["errata", "--out", str(tmp_path / "errata.html")]) == 0
    html = (tmp_path / "errata.html").read_text(encoding="utf-8")
    for one in errata.entries:
        assert f"**{one.id}**" in text and f'id="{one.id}"' in html
    assert "| 632.91 | 99.68 − 36.77 = 62.91 |" in text and "5 of 48 recomputed numbers do not fit" in html
    assert html.count("<section") == html.count("</section>") == len(errata.document)
    assert not re.search(r"<(script|link)|https?://", html), "self-contained"
    assert errata_page.KINDS.keys() >= {one.kind for one in errata.entries}


def test_another_suffix_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        cli.main(["errata", "--out", str(tmp_path / "errata.pdf")])
    assert "errata.pdf': a file that ends in .md or .html is wanted" in capsys.readouterr().err


def test_the_printed_spreads_of_t1_are_not_deviations_of_two_repeats():
    """B15: the deviation of two draws is half-normal, with a coefficient of variation of sqrt(pi / 2 - 1) = 0.76."""
    spreads = pandas.read_csv(ROOT / "config/reference/fedsmoo2023_T1.csv")["std"]
    assert (len(spreads), spreads.min(), spreads.max()) == (128, 0.10, 0.38)
    assert round(spreads.std() / spreads.mean(), 2) == 0.27
