"""Cells that several sources print: side by side, ranked, with what differs, and ours read as theirs."""

from __future__ import annotations

import csv
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import made
from flatfed import cli, experiment
from flatfed.errors import ConfigError
from flatfed.papers import printed_sources, reference
from flatfed.papers.printed_sources import Difference, Disputed, Place, Source
from flatfed.tables import disputed_page
from flatfed.tables.own_setting import Trained

ROOT = Path(__file__).resolve().parents[2]
EXP = experiment.load(ROOT)
PLACE = Place("cifar10", "resnet18_gn", "dirichlet", 0.1, 100.0, 0.1)
OTHER = Place("cifar10", "resnet18_gn", "iid", "", 100.0, 0.1)


def source(name, cells, rounds=500, read_out="final", last=None, differs=(), best_of=None):
    """A source with numbers by algorithm, all of one column."""
    return Source(name, cells, name.upper(), f"{name}'s paper", rounds, read_out, last, differs, best_of or {})


def column(**numbers):
    return {(PLACE, row): number for row, number in numbers.items()}


def test_cells_side_by_side_by_hand():
    one = source("one", column(fedavg=70.0, fedsam=72.0, only=1.0))
    two = source("two", {**column(fedavg=76.0, fedsam=71.0), (OTHER, "fedavg"): 80.0})
    found = printed_sources.disputed([one, two])
    assert [(cell.row, cell.spread) for cell in found] == [("fedavg", 6.0), ("fedsam", 1.0)]
    assert found[0].numbers == {"one": 70.0, "two": 76.0}


def test_the_best_of_several_stands_beside_the_best_of_them():
    one = source("one", column(fedlesam=70.0, fedlesam_s=75.0, fedlesam_d=73.0))
    two = source("two", column(best=71.0), best_of={"best": ("fedlesam", "fedlesam_s", "fedlesam_d")})
    (found,) = [cell for cell in printed_sources.disputed([one, two]) if cell.row == "best"]
    assert found.numbers == {"one": 75.0, "two": 71.0}
    few = source("one", column(fedlesam=70.0, fedlesam_s=75.0))
    assert [cell for cell in printed_sources.disputed([few, two]) if cell.row == "best"] == [], (
        "not all of them are there"
    )


def test_rankings_by_hand():
    """Of the six pairs of four rows one is turned round: tau = (5 - 1) / 6."""
    one = source("one", column(a=1.0, b=2.0, c=3.0, d=4.0))
    two = source("two", column(a=1.0, b=3.0, c=2.0, d=4.0))
    (found,) = printed_sources.rankings(printed_sources.disputed([one, two]))
    assert found.tau == pytest.approx(4 / 6) and found.rows == 4 and found.same_best
    assert found.interval is None, "four rows leave all open"
    assert printed_sources.rankings(printed_sources.disputed([one, two]), least=5) == []


def test_the_interval_of_tau_by_hand():
    """Eight rows: 1.96 sqrt(0.437 / 4) = 0.6478 about atanh(0.5) = 0.5493."""
    assert printed_sources.interval(0.5, 8) == pytest.approx((-0.0982, 0.8327), abs=1e-4)
    assert printed_sources.interval(1.0, 8) is None


def test_equal_numbers_are_in_no_order_and_ties_for_the_best_are_compared_as_such():
    one = source("one", column(a=1.0, b=1.0, c=1.0, d=1.0))
    two = source("two", column(a=1.0, b=3.0, c=2.0, d=4.0))
    assert printed_sources.rankings(printed_sources.disputed([one, two])) == []
    tied = source("one", column(a=1.0, b=2.0, c=4.0, d=4.0))
    (found,) = printed_sources.rankings(printed_sources.disputed([tied, two]))
    assert not found.same_best


def test_an_algorithm_that_is_none_here_and_no_disputed_cell_at_all():
    one = source("one", column(fedwmsam=70.0, fedgmt_x=72.0))
    two = source("two", column(fedwmsam=76.0, fedgmt_x=71.0))
    (*_, last) = disputed_page.sections([one, two], {}, {})
    assert [row[0] for row in last.rows] == ["fedwmsam", "fedgmt_x"]
    assert disputed_page.sentence([one]) == "No cell is printed by two sources."
    assert disputed_page.sections([one, source("three", {})], {}, {})
    assert (
        printed_sources.in_words(Place("x", "m", "domain", "art", 4.0, 1.0)) == "X, m, Domain art, 100 % of 4 clients"
    )


def test_what_differs_is_said_of_the_cells_that_it_concerns():
    of = [
        Difference("all"), Difference("rows", ("fedavg",)), Difference("data", (), ("cifar100",)),
        Difference("many", (), (), (200,)), Difference("both", ("fedavg",), ("cifar10",), (100,)),
    ]  # fmt: skip
    one, two = source("one", {}, 800), source("two", {}, 500, "mean", 50, of)
    said = printed_sources.differences([one, two], Disputed(PLACE, "fedavg", {"one": 1.0, "two": 2.0}))
    assert said == ["ONE after 800 rounds, the last round; TWO after 500 rounds, the mean of the last 50",
                    "TWO: all; rows; both"]  # fmt: skip
    taken = replace(one, inferred="its caption")
    assert taken.read == "800 rounds, taken to be the last round", "which it does not say itself"
    assert disputed_page.sections([taken, two], {}, {})[0].rows[0][2] == f"{taken.read} (its caption)"
    assert printed_sources.differences([one], Disputed(PLACE, "fedavg", {"one": 1.0})) == []
    dealt = [Difference("dealt", partitions=(PLACE.partition,)), Difference("otherwise", partitions=("domain",))]
    three = source("three", {}, 800, differs=dealt)
    cell = Disputed(PLACE, "fedavg", {"one": 1.0, "three": 2.0})
    assert printed_sources.differences([one, three], cell) == ["THREE: dealt"]
    bare = Disputed(PLACE, "fedavg", {"one": 1.0, "four": 2.0})
    assert printed_sources.differences([one, source("four", {}, 800)], bare) == ["No other difference is known"]


def test_what_is_printed_of_the_same_cells_is_what_was_counted_elsewhere():
    """The counts and correlations of the notes that the sources were gathered with, made by another program."""
    cells = printed_sources.disputed(EXP.printed_by)
    spreads = [cell.spread for cell in cells]
    assert len(cells) == 90 and sum(s > 5 for s in spreads) == 41 and sum(s > 10 for s in spreads) == 12
    both = [cell for cell in cells if {"fedsmoo2023", "fedwmsam2025"} <= cell.numbers.keys()]
    assert len(both) == 64
    largest = max(both, key=lambda cell: abs(cell.numbers["fedsmoo2023"] - cell.numbers["fedwmsam2025"]))
    assert (largest.row, largest.numbers["fedsmoo2023"], largest.numbers["fedwmsam2025"]) == ("fedgamma", 43.24, 1.98)
    taus = [one for one in printed_sources.rankings(cells) if one.sources == ("fedsmoo2023", "fedwmsam2025")]
    assert [round(one.tau, 2) for one in taus] == [0.57, 0.5, 0.57, 0.21, 0.29, 0.14, 0.07, -0.14]
    assert sum(one.same_best for one in taus) == 1


@pytest.mark.parametrize(
    ("read_out", "last", "expected"), [("final", None, 0.52), ("best", None, 0.9), ("mean", 2, 0.51)]
)
def test_a_longer_run_is_read_where_a_source_stops(read_out, last, expected, tmp_path):
    accuracies = [0.9, 0.5, 0.52, 0.99]
    folder = made.run(tmp_path / "fedsmoo-cifar10/path3-100/fedavg/seed1", {"round": [1, 2, 3, 4]})
    run = Trained(
        made.records.read(Path(folder, "run.json")), {"round": [1, 2, 3, 4], "test_accuracy": accuracies}, folder
    )
    assert disputed_page.read_as(source("one", {}, 3, read_out, last), run) == pytest.approx(expected)
    assert disputed_page.read_as(source("one", {}, 5, read_out, last), run) is None, "it is shorter"


def test_the_page_in_both_formats(tmp_path, capsys):
    for ending in ("md", "html"):
        assert cli.main(["disputed", str(ROOT / "results/published"), "--out", str(tmp_path / f"page.{ending}")]) == 0
        assert "90 cells are printed by two sources or more" in capsys.readouterr().out
        text = (tmp_path / f"page.{ending}").read_text().replace("\\", "")
        ranks = "mean tau 0.28 over 8 columns, the best row the same in 1"
        differs = "duals were handed to every tensor from the vector's head until 502bec6"
        for said in ("FedGAMMA, 41.3 points", ranks, "0.39 to 0.94", differs):
            assert said in text.replace("&#39;", "'"), (ending, said)
    with pytest.raises(SystemExit):
        cli.main(["disputed", "--out", "page.pdf"])
    assert "'page.pdf': a file that ends in .md or .html is wanted" in capsys.readouterr().err


def test_the_page_in_docs_is_that_of_the_published_runs(tmp_path):
    assert cli.main(["disputed", str(ROOT / "results/published"), "--out", str(tmp_path / "disputed.md")]) == 0
    assert (tmp_path / "disputed.md").read_text() == (ROOT / "docs/disputed.md").read_text(), "make results-page"


@pytest.fixture
def copy(tmp_path):
    """The configuration's sources and reference files, to be changed."""
    (tmp_path / "config").mkdir()
    shutil.copytree(ROOT / "config/reference", tmp_path / "config/reference")
    shutil.copy(ROOT / "config/sources.yaml", tmp_path / "config/sources.yaml")
    return tmp_path


def change(root, **entry):
    """Change the entry of FedWMSAM; a value of None takes a key away."""
    path = root / "config/sources.yaml"
    document = yaml.safe_load(path.read_text())
    document["fedwmsam2025"] = {k: v for k, v in {**document["fedwmsam2025"], **entry}.items() if v is not None}
    path.write_text(yaml.safe_dump(document))


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"rounds": None}, "fedwmsam2025: key 'rounds' is missing"),
        ({"rounds": 0}, "fedwmsam2025.rounds: 0"),
        ({"read_out": "finnal"}, "did you mean 'final'?"),
        ({"read_out": "mean"}, "fedwmsam2025: key 'last' is missing: over how many rounds"),
        ({"last": 5}, "fedwmsam2025: last: means nothing (read_out final)"),
        ({"tables": ["fedwmsam2025_T2"]}, "did you mean 'fedwmsam2025_T1'?"),
        ({"tables": ["fedwmsam2025_T1", "fedlesam2024_T2"]}, "a source has one number a cell"),
    ],
)
def test_what_is_refused(copy, entry, said):
    change(copy, **entry)
    with pytest.raises(ConfigError) as refused:
        printed_sources.read(copy, reference.read_all(copy))
    assert said in str(refused.value) and "config/sources.yaml" in str(refused.value)


def test_a_reference_file_with_a_cell_twice_is_refused(copy):
    path = copy / "config/reference/fedwmsam2025_T1.csv"
    lines = list(csv.reader(path.open()))
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([*lines, lines[1]])
    with pytest.raises(ConfigError, match=r"fedwmsam2025_T1.csv: line \d+: this number is given twice"):
        reference.read_all(copy)
