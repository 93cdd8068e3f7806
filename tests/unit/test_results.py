"""``flatfed results``: what comes out at the papers' own settings, of runs that are finished or not."""

from __future__ import annotations

import itertools
import json
import math
import operator
import re
import shutil
import statistics
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import made
from flatfed import cli, experiment
from flatfed.figures import targets
from flatfed.runs import record as records
from flatfed.specs.cell import Cell
from flatfed.tables import read_outs, results_page, results_verdict
from flatfed.tables.own_setting import Bounds, Outcome, Trained, outcome_of
from flatfed.tables.read_outs import Comparison, ReadPair
from flatfed.tables.standing import AS_PRINTED, REVERSED, TIE, pairs, side

ROOT = Path(__file__).parents[2]
EXP = experiment.load(ROOT)
SPLIT = "path3-100"
PLACE = {"device": "cpu", "threads": 1, "host": {"processor": "a CPU", "gpu": None}}
COST = {"seconds": 7200.0, **PLACE}
BYTES = 1000


def described(algorithm: str, seed: int = 1, **changes) -> dict:
    return {**EXP.run("paper", "fedsmoo-cifar10", SPLIT, algorithm, seed).description, **changes}


def columns(accuracies: list[float], first: int = 1) -> dict[str, list]:
    rounds = list(range(first, first + len(accuracies)))
    sent = [BYTES * number for number in rounds]
    clients = [10 - number % 2 for number in rounds]
    sent = {"download_bytes": sent, "upload_bytes": sent}
    return {"round": rounds, "test_accuracy": accuracies, "clients": clients, **sent}


def place(root: Path, algorithm: str, protocol: str = "fedsmoo-cifar10", seed: int = 1) -> Path:
    return root / protocol / SPLIT / algorithm / f"seed{seed}"


@pytest.fixture
def root(tmp_path, monkeypatch):
    """FedCM at round 4 of 800, 68 % reached in round 3; FedAvg at round 2, in bfloat16; FedSMOO finished."""
    monkeypatch.chdir(tmp_path)
    runs = tmp_path / "runs"
    made.so_far(place(runs, "fedcm"), columns([0.1, 0.5, 0.69, 0.6]), description=described("fedcm"), **COST)
    low = described("fedavg", protocol="fedsmoo-cifar10~bfloat16", precision="bfloat16")
    made.so_far(place(runs, "fedavg", low["protocol"]), columns([0.1, 0.2]), description=low, **COST)
    whole = columns([0.5] * 143 + [0.68] * 50 + [0.80] * 607)
    made.run(place(runs, "fedsmoo"), whole, description=described("fedsmoo"), **COST)
    return tmp_path


def page(*folders: str, out: str = "page.md") -> int:
    return cli.main(["results", *folders, "--out", out])


def cell(text: str, table: str, column: str, row: str) -> list[str]:
    """Return the texts of a line of the page: printed, ours, difference, n, rounds, precision."""
    part = text.split(f"### {table}")[1].split("\n##")[0]
    lines = [
        [each.strip() for each in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("|")
    ]
    (found,) = [line[2:] for line in lines if column in line[0] and line[1] == row]
    return found


def test_targets_stand_beside_print_as_soon_as_they_are_reached(root):
    assert page("runs") == 0
    text = Path("page.md").read_text()
    table = "Sun et al., ICML 2023, Table 6"
    assert cell(text, table, "acc = 68%", "FedCM") == ["96", "3", "−93.0", "1", "4 of 800", "float32"]
    assert cell(text, table, "acc = 74%", "FedCM") == ["442", "> 4", "–", "1", "4 of 800", "float32"]
    assert cell(text, table, "acc = 68%", "FedAvg") == ["246", "> 2", "–", "1", "2 of 800", "bfloat16"]
    assert cell(text, table, "acc = 74%", "FedSMOO") == ["194", "194", "+0.0", "1", "800 of 800", "float32"]
    assert cell(text, "Sun et al., ICML 2023, Table 1", "Pathological, c = 3", "FedCM")[1] == "not finished"
    smoo = cell(text, "Sun et al., ICML 2023, Table 1", "Pathological, c = 3", "FedSMOO")
    assert smoo[1:3] == ["80.00", f"{80 - float(smoo[0].split()[0]):+.2f}".replace("-", "−")]
    assert "| path3-100 | fedavg | 1 | bfloat16 | 2 of 800 | 9 to 10, 9.5 | 20.00 | 20.00 (2) | 2.0" in text
    part = text.split("### Sun et al., ICML 2023, Table 6")[1].split("\n##")[0]
    assert "Not begun in these columns: FedAdam, SCAFFOLD, FedDyn, FedSAM, MoFedSAM." in part
    chosen = text.split("## What was chosen, and what the papers leave open")[1].split("\n##")[0]
    assert "\n- FedSMOO: the official code is followed in s, " in chosen and "\n- B14: " in chosen
    assert "mofedsam" not in chosen and chosen.count("clip norm") == 1, "of rows that are there, once"
    assert Path("page.png").read_bytes().startswith(b"\x89PNG") and "](page.png)" in text


def test_the_same_runs_give_the_same_bytes(root):
    assert page("runs") == page("runs", out="again.md") == 0
    assert Path("page.png").read_bytes() == Path("again.png").read_bytes()
    assert Path("page.md").read_text() == Path("again.md").read_text().replace("again.png", "page.png")


def test_a_run_of_another_setting_is_none_of_a_papers(root, capsys):
    shutil.rmtree("runs")
    about = described("fedcm", learning_rate=0.2)
    made.so_far(place(Path("runs"), "fedcm"), columns([0.9]), description=about, seconds=1.0, **PLACE)
    assert page("runs") == 2
    assert "runs: 1 runs, and none of a setting of which a table" in capsys.readouterr().err
    assert not Path("page.md").exists()


def slip(kind: str) -> str:
    """Spoil what lies in runs, or in more; return what is said."""
    lines = place(Path("runs"), "fedcm") / records.LINES_SO_FAR
    if kind == "none":
        shutil.rmtree("runs")
        Path("runs").mkdir()
        return "runs: no run.json or run.so-far.json of a run at paper scale in there"
    if kind == "damaged":
        lines.with_name(records.RECORD_SO_FAR).write_text("{")
        return "fedcm/seed1/run.so-far.json: not the record of a run"
    if kind == "edited":
        lines.write_text(lines.read_text().replace("0.69", "0.99"))
        return "fedcm/seed1/metrics.so-far.csv: is not the file that run.so-far.json beside it was written with"
    if kind == "twice":
        shutil.copytree("runs", "more/runs")
        return "is the same run as"
    if kind == "no folder":
        return "more: there is no such folder"
    if kind == "empty folder":
        Path("more").mkdir()
        return "more: no run.json or run.so-far.json of a run at paper scale in there"
    if kind == "no record":
        lines.with_name(records.RECORD_SO_FAR).unlink()
        return "fedcm/seed1/metrics.so-far.csv: lies there without the record of its run (run.json or run.so-far.json)"
    shutil.move(lines.parent, lines.parents[1] / "seed2")
    return "seed1, here seed2"


KINDS = ["none", "damaged", "edited", "twice", "no folder", "empty folder", "no record", "elsewhere"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_wrong_is_named_and_nothing_is_written(root, capsys, kind):
    said = slip(kind)
    assert page("runs", *(["more"] if kind in ("twice", "no folder", "empty folder") else [])) == 2
    text = capsys.readouterr().err
    assert said in text and "Traceback" not in text
    assert not Path("page.md").exists() and not Path("page.png").exists()


def test_the_page_is_markdown(root, capsys):
    with pytest.raises(SystemExit):
        page("runs", out="page.html")
    assert "argument --out: 'page.html': a file that ends in .md is wanted" in capsys.readouterr().err


def trained(seed: int = 1, precision: str = "float32") -> Trained:
    ids = {"scale": "paper", "protocol": "p", "split": "s", "algorithm": "a", "seed": seed}
    about = {**ids, "precision": precision, "rounds": 800}
    record = {"description": about, "rounds_done": 10, "diverged_at": None}
    digests = {"dataset_digest": made.DIGEST, "partition_digest": made.DIGEST}
    return Trained(records.RunRecord(**record, **digests), {}, f"{next(COUNT)}")


COUNT = itertools.count()


def outcome(row, paper, bounds, metric="rounds_to_target", run=None, table="t", note=""):
    """An outcome of one run, whose number lies between ``bounds``."""
    low, high = bounds
    run = run or trained()
    value = low if low == high != math.inf else None
    accuracy = metric == "test_accuracy"
    cell = Cell(
        **{"table": table, "column": "c", "row": row, "metric": metric, "target": 0.68, "relative": None},
        **{"unit": "fraction" if accuracy else "rounds", "printed_unit": "percent" if accuracy else "rounds"},
        **{
            "scale": "paper",
            "compare": "values",
            "runs": [run.folder],
            "n": 1,
            "spread": None,
            "seeds": [run.ids.seed],
        },
        **{"paper_value": paper, "paper_spread": None, "paper_decimals": None, "paper_note": note, "value": value},
        **{"values": [value], "difference": None if None in (value, paper) else value - paper},
        status="missing" if value is None else "ok",
    )
    return Outcome(table, "c", row, "", "", "", cell, [run], [Bounds(*bounds)])


def counts(*found) -> tuple[int, int, int]:
    """Return of how many pairs of rows something is printed, how many can be told, how many are as printed."""
    stands = [pair.stands for pair in pairs(list(found))]
    return len(stands), len(stands) - stands.count(None), stands.count(AS_PRINTED)


def test_pairs_are_counted_by_hand():
    """Printed a < b < c: b ends before a, c will take more rounds than a and b; d has no number in print."""
    found = [outcome("a", 100, (90, 90)), outcome("b", 120, (80, 80)), outcome("c", 300, (95, math.inf))]
    assert counts(*found, outcome("d", None, (1, 1))) == (3, 3, 2)
    assert counts(outcome("a", 100, (50, math.inf)), outcome("b", 120, (80, 80))) == (1, 0, 0), "a may still be first"
    never = outcome("n", None, (math.inf, math.inf), note="not reached")
    assert counts(outcome("a", 100, (90, 90)), never) == (1, 1, 1), "neither in print nor here"
    high, low = (
        outcome(row, paper, (at, at), "test_accuracy") for row, paper, at in (("a", 0.8, 0.7), ("b", 0.7, 0.6))
    )
    assert counts(high, low) == (1, 1, 1)
    assert counts(outcome("a", 0.8, (0.5, 0.5), "test_accuracy"), low) == (1, 1, 0)


def test_two_rows_of_the_same_round_are_a_tie():
    (same,) = pairs([outcome("a", 100, (90, 90)), outcome("b", 120, (90, 90))])
    (after,) = pairs([outcome("a", 100, (90, 90)), outcome("b", 120, (80, 80))])
    (open_,) = pairs([outcome("a", 100, (90, math.inf)), outcome("b", 120, (90, math.inf))])
    (never,) = pairs([outcome("a", 100, (math.inf, math.inf)), outcome("b", 120, (math.inf, math.inf))])
    assert [pair.stands for pair in (same, after, open_, never)] == [TIE, REVERSED, None, None]


def test_what_most_readings_say_of_a_pair():
    (pair,) = pairs([outcome("a", 100, (90, 90)), outcome("b", 120, (95, 95))])
    for said, told, answer in (
        ((AS_PRINTED, AS_PRINTED, None, AS_PRINTED, None), True, AS_PRINTED),
        ((AS_PRINTED, None, None, AS_PRINTED, None), False, AS_PRINTED),
        ((REVERSED, REVERSED, REVERSED, None, None), True, REVERSED),
        ((REVERSED, TIE, REVERSED, None, None), True, ""),
        ((AS_PRINTED, REVERSED, AS_PRINTED, None, None), True, ""),
        ((None,), False, ""),
        ((AS_PRINTED,), True, AS_PRINTED),
    ):
        assert (ReadPair(pair, said).told, ReadPair(pair, said).answer) == (told, answer)


def test_a_target_that_is_missed_by_now_is_worse_whatever_it_will_come_to():
    """Printed 100: more than 105 rounds may still be within a tenth, 150 may not, nor what never gets there."""
    sides = [side(outcome("a", 100, (low, math.inf))) for low in (90, 105, 150, math.inf)]
    assert sides == ["", "", "worse", "worse"]
    assert [side(outcome("a", 100, (n, n))) for n in (80, 105, 150)] == ["better", "agrees", "worse"]
    unreached = [outcome("a", None, each, note="not reached") for each in ((50, math.inf), (50, 50))]
    assert [side(each) for each in unreached] == ["", "better"]
    assert side(outcome("a", None, (50, 50))) == "", "nothing is printed"
    lost = outcome("a", 0.8, (-math.inf, math.inf), "test_accuracy")
    assert side(lost) == ""


def test_rows_that_come_out_in_another_order_are_named_with_the_tables_that_print_them():
    a, b = outcome("a", 100, (150, math.inf)), outcome("b", 120, (90, 90), table="u: of rounds")
    (pair,) = pairs([a, b])
    said = results_page.sentence_on_pairs([ReadPair(pair, (REVERSED, None, REVERSED))])
    assert said == "a before b (c: printed  in t and  in u, ours  and ; of 3 readings 0 say so, 2 the reverse)"
    said = results_page.sentence_on_pairs([ReadPair(pair, (AS_PRINTED, TIE, REVERSED))])
    assert said.endswith("of 3 readings 1 say so, 1 the reverse, 1 neither)")
    again = outcome("b", 120, (90, 90), table="t", run=b.runs[0])
    (pair,) = pairs([a, b, again])
    assert pair.behind.table == "t", "one table has both"
    elsewhere = outcome("b", 120, (90, 90), "test_accuracy", table="u")
    assert counts(a, elsewhere) == (0, 0, 0), "another metric"


def test_pairs_are_of_one_precision_and_the_same_seeds_and_count_once():
    a, b = trained(), trained()
    first = outcome("a", 100, (90, 90), run=a), outcome("b", 120, (95, 95), run=b)
    again = outcome("a", 100, (90, 90), run=a, table="u"), outcome("b", 120, (95, 95), run=b, table="u")
    assert counts(*first, *again) == (1, 1, 1)
    assert counts(first[0], outcome("b", 120, (95, 95), run=trained(precision="bfloat16"))) == (0, 0, 0)
    assert counts(first[0], outcome("b", 120, (95, 95), run=trained(seed=2))) == (1, 0, 0)


def compared(*columns, means=(), metric="rounds_to_target", printed=9) -> Comparison:
    """A comparison of the outcomes in ``columns``, one for each way to read a curve."""
    ways = read_outs.OF_ROUNDS if metric == "rounds_to_target" else read_outs.OF_ACCURACY
    assert len(columns) == len(ways)
    sides = [Counter(filter(None, map(side, column))) for column in columns]
    difference = read_outs.Difference("ours over print", operator.truediv, statistics.geometric_mean, str)
    rows = list(map(list, zip(*columns, strict=True)))
    return Comparison(metric, ways, rows, sides, list(means), difference, len(means), printed)


def test_the_verdict_by_hand():
    """Four numbers, by first crossings, means of 3, 5 and 10, and a Hanning window; of ten rounds one is not known."""
    near, better, worse, still, open_ = (92, 92), (50, 50), (170, 170), (250, math.inf), (10, math.inf)
    as_read = (
        (near, better, worse, still),
        (near, near, near, near),
        (better, better, better, better),
        (better, still, still, open_),
        (worse, worse, worse, worse),
    )
    columns = [[outcome("a", 100, each) for each in bounds] for bounds in as_read]
    numbers = compared(*columns, means=(0.5, 1.25, 0.75, 1.0, 0.9))
    (pair,) = pairs([outcome("a", 100, (90, 90)), outcome("b", 120, (95, 95))])
    yes, no = [AS_PRINTED] * 3, [REVERSED] * 3
    said = [yes, [*yes, *yes], [*no, None], [AS_PRINTED, REVERSED], [TIE, TIE], [None, None, REVERSED]]
    read = [ReadPair(pair, tuple(each)) for each in said]
    runs = [trained(), replace(trained(2), record=replace(trained(2).record, rounds_done=20))]
    assert results_verdict.verdict(runs, ["here", "there"], [numbers], read) == (
        "At the papers' own settings (here; there), 2 runs (float32; n = 2; 10 to 20 of 800 rounds): of 9 printed "
        "numbers (rounds to target) 4 can be compared so far, ours within a tenth for 1, earlier for 1 and later for 2 "
        "by first crossings, and for 0, 1 and 2 of 3 by the mean of 10 rounds; of 5 pairs of rows whose order most "
        "readings of the curves can tell, 2 stand as printed by all of these and 1 reversed by all, the other 2 depend "
        "on the reading."
    )
    assert results_verdict.details([numbers], read) == [
        f"First crossings come after {(0.92 * 0.5 * 1.7) ** (1 / 3):.2f} times the printed rounds (geometric mean of "
        f"3, and at least {(0.92 * 0.5 * 1.7 * 2.5) ** (1 / 4):.2f} with 1 more, late and not reached yet). The 5 "
        "numbers that every one of 5 readings knows come after 0.50 times by first crossings and 0.75 to 1.25 times by "
        "the others.",
        "Of 6 pairs of rows that are printed apart, 1 cannot be told by most readings yet.",
    ]
    ended = [replace(run, record=replace(run.record, rounds_done=800)) for run in runs]
    assert results_verdict.how_far(ended, ["here"]).endswith("all finished)")
    said = results_verdict.how_far([ended[0], runs[1], trained(precision="bfloat16")], ["a", "b", "c"])
    assert "(3 settings), 3 runs (2 in float32, 1 in bfloat16; n = 1 to 2; 1 finished, the others 10 to 20 of" in said
    assert results_verdict.verdict(runs, ["here"], [], []).endswith(
        ": no number can be held against print yet; the order of no two rows can be told yet."
    )
    high = [outcome("a", 0.8, (0.9, 0.9), "test_accuracy")]
    accuracies = compared(*[high] * 5, metric="test_accuracy", printed=1)
    assert results_verdict.numbers_beside_print(accuracies) == (
        "of 1 printed number (test accuracy) 1 can be compared so far, ours within a point for 0, higher for 1 and "
        "lower for 0 in the last round, and for 0, 1 and 0 of 1 by the mean of 10 rounds"
    )
    assert "no run has a number that a paper prints yet" in results_verdict.verdict([], [], [], [])


def test_a_row_in_two_precisions_is_one_printed_number_and_is_compared(root):
    """FedCM in bfloat16, as all others but FedSMOO: 1, 2 and 4 points above its float32, whose round 4 it lacks."""
    low = {"protocol": "fedsmoo-cifar10~bfloat16", "precision": "bfloat16"}
    for name, accuracies in (("fedcm", [0.11, 0.52, 0.73]), ("feddyn", [0.1]), ("scaffold", [0.1])):
        folder = place(Path("runs"), name, low["protocol"])
        made.so_far(folder, columns(accuracies), description=described(name, **low), **COST)
    assert page("runs") == 0
    text = Path("page.md").read_text().replace("\\", "")
    read = text.split("## The same curves, read otherwise")[1].split("## Variants")[0]
    assert read.count("| FedCM |") == 1 and "| FedCM | bfloat16 | 96 | 3 |" in read
    assert "of 10 printed numbers (rounds to target)" in " ".join(text.split()), "two targets of five rows"
    (line,) = [line for line in text.splitlines() if 'precision "bfloat16" in place of "float32"' in line]
    assert [each.strip() for each in line.strip("|").split("|")] == [
        *("fedsmoo-cifar10", SPLIT, "fedcm", "1", 'precision "bfloat16" in place of "float32"'),
        *("1 to 3 of 800", "43.00", "45.33", "+2.33", "+2.33"),
    ]
    assert text.split("## The runs")[1].count("| fedcm | 1 | bfloat16 |") == 1


def test_what_is_said_of_the_runs_and_seconds_of_a_round(root, capsys):
    folder = place(Path("runs"), "feddyn")
    lines = {**columns([0.1] * 4), "seconds": [10.0, 22.0, 1000.0, 1011.0]}
    made.so_far(folder, lines, description=described("feddyn"), **COST)
    Path("about.md").write_text("Stopped by\nus.\n")
    assert cli.main(["results", "runs", "--about", "about.md", "--out", "page.md"]) == 0
    runs = Path("page.md").read_text().split("## The runs")[1]
    assert "\n\nStopped by\nus.\n\n| set-up |" in runs
    (line,) = [line for line in runs.splitlines() if "| feddyn |" in line]
    assert line.split("|")[-4:-2] == [" 2.0 ", " 11.5 "], "10, 12, 978 and 11 s"
    with pytest.raises(SystemExit):
        cli.main(["results", "runs", "--about", "none.md", "--out", "page.md"])
    assert "argument --about: 'none.md' cannot be read as text" in capsys.readouterr().err


def test_a_pair_is_told_by_every_way_to_read_its_curves(root):
    """FedCM crosses 68 % in round 3, for one round; FedDyn for good in round 5, which is FedCM's by every mean.

    FedAvg, which is printed behind both, has not crossed.
    """
    shutil.rmtree("runs")
    lines = {"fedcm": [0.1, 0.1, 0.7, *[0.1] * 37], "feddyn": [0.1] * 4 + [0.9] * 36, "fedavg": [0.1] * 40}
    for name, accuracies in lines.items():
        made.so_far(place(Path("runs"), name), columns(accuracies), description=described(name), **COST)
    assert page("runs") == 0
    text = " ".join(Path("page.md").read_text().split())
    where = "(10% of 100 clients, CIFAR-10, Pathological, c = 3, acc = 68%: printed"
    some = text.split("As printed by some readings only: ")[1].split(" ## ")[0]
    assert some.startswith(
        f"FedCM before FedDyn {where} 96 and 173, ours 3 and 5; of 5 readings 1 say so, 4 the reverse"
    )
    assert "FedAvg" not in some and "Not as printed" not in text.split("As printed by some")[0]


def test_a_hanning_window_waits_for_the_rounds_that_will_change_it():
    """However a run goes on, what was read of it stands: a round is as it was, or was one of those after a bound."""
    rng = np.random.default_rng(1)
    curve = list(0.55 + np.linspace(0, 0.2, 60) + 0.1 * (rng.random(60) - 0.5))
    spec = next(
        cell.spec
        for cell in EXP.cells("paper", "fedsmoo2023_T6")
        if cell.spec.row == "fedcm" and cell.spec.target == 0.68
    )
    read = []
    for rounds in range(1, 61):
        record = replace(trained().record, rounds_done=rounds)
        run = Trained(record, columns(curve[:rounds]), "f")
        (bounds,) = read_outs.DRAWN.read(outcome_of(spec, ("t", "c", "r"), [run])).each
        read.append(bounds)
    last = read[-1].number
    assert last is not None and 11 < last < 50
    assert all(bounds.number == last if bounds.number else bounds.low < last for bounds in read)
    assert [bounds.number for bounds in read].index(last) == last + read_outs.WINDOW // 2 - 1


def test_runs_of_variants_of_other_metrics_and_without_lines_have_a_page(root):
    """DFedSAM's Table 3 is of a variant, its Table 1 reads metrics of its own; what diverged at once has no lines."""
    shutil.rmtree("runs")
    about = EXP.run("paper", "dfedsam-cifar10~T500", "shards2-100", "fedavg", 1).description
    last = about["rounds"]
    more = {"train_accuracy": [0.9, 0.95], "node_train_accuracy": [0.9, 0.99]}
    lines = {**columns([0.5, 0.6]), "round": [1, last], **more}
    made.run(Path("runs/dfedsam-cifar10~T500/shards2-100/fedavg/seed1"), lines, description=about, **COST)
    about = EXP.run("paper", "dfedsam-cifar10", "iid-100-norep", "fedavg", 1).description
    made.run(Path("runs/dfedsam-cifar10/iid-100-norep/fedavg/seed1"), lines, description=about, **COST)
    about, gone = described("fedcm"), {**columns([]), "round": []}
    made.run(place(Path("runs"), "fedcm"), gone, description=about, **{**COST, "diverged_at": 1, "rounds_done": 0})
    assert page("runs") == 0
    text = Path("page.md").read_text()
    assert "Shi et al., ICML 2023, Table 3" in text and "Shi et al., ICML 2023, Table 1" in text
    assert cell(text, "Sun et al., ICML 2023, Table 6", "acc = 68%", "FedCM")[1] == "diverged in round 1"
    assert "0 of 800 (diverged) | – | – | – |" in text


def otherwise(text: str, column: str, row: str) -> list[str]:
    """Return the texts of a line of the page's section on other ways to read, from the printed number on."""
    part = text.split("## The same curves, read otherwise")[1].split("## The runs")[0]
    lines = [[each.strip() for each in line.strip("|").split("|")] for line in part.splitlines()]
    (found,) = [line[3:] for line in lines if column in line[0] and line[1:2] == [row]]
    return found


def test_the_same_curves_are_read_otherwise_by_hand(root):
    """FedSMOO's curve is 50 % to round 143, 68 % to 193, then 80 %.

    All k rounds of a mean must be of 68 %, and all 21 of a Hanning window; half of them, or its middle, of 80 %.
    """
    assert page("runs") == 0
    text = Path("page.md").read_text()
    # as in the tables, means of 3, 5 and 10, Hanning window of 21
    assert otherwise(text, "acc = 68%", "FedSMOO") == ["144", "144", "146", "148", "153", "154"]
    assert otherwise(text, "acc = 74%", "FedSMOO") == ["194", "194", "195", "196", "198", "194"]
    # FedCM, printed 96 and in round 4, had 68 % in round 3 alone; what lies before print tells nothing of 74 %.
    assert otherwise(text, "acc = 68%", "FedCM") == ["96", "3", *["> 4"] * 3, "> 0"]
    with pytest.raises(ValueError, match="not enough values"):
        otherwise(text, "acc = 74%", "FedCM")
    first, of_three = math.sqrt(144 / 144 * 194 / 194), math.sqrt(146 / 144 * 195 / 194)
    means = re.search(r"ours over print, mean of 2 \|  \|  \|  \| (\S+) \| (\S+) \|", text).groups()
    assert means == (f"{first:.2f}", f"{of_three:.2f}")
    assert "| ours within a tenth |  |  |  | 2 of 3 | 2 of 2 |" in text
    assert "| ours earlier |  |  |  | 1 of 3 | 0 of 2 |" in text and "| ours later |  |  |  | 0 of 3 | 0 of 2 |" in text
    of_three_known = (144 / 144 * 194 / 194 * 3 / 96) ** (1 / 3)
    first = f"First crossings come after {of_three_known:.2f} times the printed rounds (geometric mean of 3)"
    assert f"{first}. The 2 numbers that every one of 5 readings knows come after 1.00 times by first" in text


def test_accuracies_are_read_otherwise_by_hand(root):
    shutil.rmtree("runs")
    lines = columns([0.5] * 790 + [0.9, 0.8, *[0.7] * 7, 0.75])
    made.run(place(Path("runs"), "fedsmoo"), lines, description=described("fedsmoo"), **COST)
    made.so_far(place(Path("runs"), "fedcm"), columns([0.1, 0.5]), description=described("fedcm"), **COST)
    assert page("runs") == 0
    part = Path("page.md").read_text().split("| Test accuracy: column")[1].split("## The runs")[0]
    assert part.splitlines()[0].endswith(
        "as in the tables | mean of 3 | mean of 5 | mean of 10 | best on the test set |"
    )
    assert "| 81.58 ± 0.16 | 75.00 | 71.67 | 71.00 | 73.50 | 90.00 |" in part.replace("\\", "")
    assert "FedCM" not in part, "not finished"
    means = "−6.58", "−9.91", "−10.58", "−8.08", "+8.42"
    assert f"| ours minus print, points, mean of 1 |  |  |  | {' | '.join(means)} |" in part


def test_a_run_with_one_choice_otherwise_stands_beside_the_plain_one_by_hand(root):
    """The last ten rounds of both are 3 to 12: of the finished FedSMOO all at 50 %, of the variant a tenth at 70 %."""
    other, folder = "fedsmoo~rho0.05", Path("runs")
    made.so_far(place(folder, other), columns([0.1] * 2 + [0.6] * 9 + [0.7]), description=described(other), **COST)
    low = described(other, protocol="fedsmoo-cifar10~bfloat16", precision="bfloat16")
    made.so_far(place(folder, other, low["protocol"]), columns([0.9]), description=low, **COST)
    worse = "fedsmoo~rho1"
    made.so_far(place(folder, worse), columns([0.5, 0.4]), description=described(worse), **COST)
    same = "fedcm~beta0.1"  # FedCM's own value, in this protocol
    made.so_far(place(folder, same), columns([0.5]), description=described(same), **COST)
    second = "fedsmoo~paper-s"
    made.so_far(place(folder, second, seed=2), columns([0.9]), description=described(second, 2), **COST)
    assert page("runs") == 0
    text = Path("page.md").read_text()
    section = text[text.index("## Variants and precisions") : text.index("## The runs")]
    lines = [
        [word.strip() for word in line.strip("|").split("|")] for line in section.splitlines() if "seed" not in line
    ]
    about = ["fedsmoo-cifar10", SPLIT, "fedsmoo", "1"]
    assert [line for line in lines if len(line) > 1 and not line[0].startswith("-")] == [
        [*about, "rho 0.05 in place of 0.1", "3 to 12 of 800", "50.00", "61.00", "+11.00", "+2.50"],
        [*about, "rho 1.0 in place of 0.1", "1 to 2 of 800", "50.00", "45.00", "−5.00", "−5.00"],
    ], "of another seed, and in another precision, no plain run is there, and one more is the plain run by another name"
    made_of = next(line for line in text.splitlines() if "rho0.05" in line)
    assert made_of.split("|")[6].strip() == "12 of 800" and "100 clients), 3 runs (" in text, (
        "it counts for no printed number"
    )


def test_seeds_stand_together_and_say_what_is_missing(root):
    made.so_far(place(Path("runs"), "fedcm", seed=2), columns([0.7]), description=described("fedcm", 2), **COST)
    assert page("runs") == 0
    text = Path("page.md").read_text()
    table = "Sun et al., ICML 2023, Table 6"
    assert cell(text, table, "acc = 68%", "FedCM")[1:4] == ["2.0 ± 1.4", "−94.0", "2"]
    assert cell(text, table, "acc = 74%", "FedCM")[1] == "> 1"
    assert "n = 1 to 2" in text


def test_the_same_run_by_two_names_and_data_of_two_kinds_are_refused(root, capsys):
    other = described("fedcm", protocol="fedsmoo-cifar10~again")
    made.so_far(place(Path("runs"), "fedcm", other["protocol"]), columns([0.7]), description=other, **COST)
    assert page("runs") == 2
    assert "is the same run as" in capsys.readouterr().err
    shutil.rmtree(place(Path("runs"), "fedcm", other["protocol"]))
    about = described("feddyn")
    elsewhere = place(Path("more/runs"), "feddyn")
    made.so_far(elsewhere, columns([0.7]), description=about, dataset_digest="f" * 64, **COST)
    assert page("runs", "more") == 2
    assert "they were trained on different data, both cifar10" in capsys.readouterr().err


def test_runs_lie_at_any_depth_and_those_of_tuning_and_replaced_ones_are_none(root):
    shutil.copytree("runs", "all/paper/runs")
    shutil.copytree("runs", "all/paper/tuning/runs")
    shutil.copytree(place(Path("runs"), "fedsmoo"), place(Path("all/paper/runs"), "fedsmoo") / ".previous")
    assert page("runs") == page("all", out="deep.md") == 0
    assert Path("page.md").read_text() == Path("deep.md").read_text().replace("deep.png", "page.png")


def test_a_record_without_what_the_page_says_is_refused(root, capsys):
    path = place(Path("runs"), "fedcm") / records.RECORD_SO_FAR
    record = json.loads(path.read_text())
    del record["host"]
    made.sealed(path, record)
    assert page("runs") == 2
    assert "run.so-far.json: not the record of a run (key 'host' is missing" in capsys.readouterr().err


def test_the_page_in_docs_is_that_of_the_published_runs(tmp_path, capsys):
    """And README quotes its verdict."""
    out = tmp_path / "results.md"
    published = ROOT / "results/published"
    about = published / "fedsmoo-cifar10/about.md"
    assert cli.main(["results", str(published), "--about", str(about), "--out", str(out)]) == 0
    assert out.read_text() == (ROOT / "docs/results.md").read_text(), "make results-page"
    verdict = capsys.readouterr().out.split(": ", 1)[1].strip()
    assert " ".join((ROOT / "README.md").read_text().split()).count(verdict) == 1


def test_our_run_stands_beside_what_several_sources_print_read_as_they_read_theirs(root):
    """FedSMOO's 800 rounds where FedSMOO's paper stops and where FedWMSAM's does; unfinished and other runs nowhere."""
    other = described("fedcm", learning_rate=0.2)
    made.run(place(root / "runs", "fedcm", seed=2), columns([0.9] * 800), description={**other, "seed": 2}, **COST)
    assert cli.main(["disputed", "runs", "--out", "page.md"]) == 0
    text = Path("page.md").read_text().replace("\\", "")
    part = text.split("## CIFAR-10, ResNet-18-GN, Pathological 3")[-1].split("## ")[0]
    own = {line.split("|")[1].strip(): line.split("|")[-2].strip() for line in part.splitlines() if line[:2] == "| "}
    assert own["FedSMOO"] == "80.00 (800 rounds, n = 1); 80.00 (500 rounds, n = 1)"
    assert own["FedCM"] == own["FedAvg"] == "–"
    assert text.count("n = 1") == 2


def test_rounds_that_one_run_alone_has_are_drawn_on_a_shorter_scale():
    short, longer, alone = (replace(trained(), history=columns([0.5] * rounds)) for rounds in (140, 200, 800))
    runs = [replace(run, record=replace(run.record, rounds_done=len(run.history["round"]))) for run in (short, longer)]
    alone = replace(alone, record=replace(alone.record, rounds_done=800))

    def shares(*shown):
        """Return which shares of the width lie before the rounds 100, 200 and 800."""
        figure = targets.draw([targets.Panel("here", [("FedAvg", run) for run in shown], [])])
        axis, foot = figure.axes[0], " ".join(text.get_text() for text in figure.texts)
        assert ("on a shorter scale" in " ".join(foot.split())) == (axis.get_xscale() == "function")
        (left, right), to = axis.get_xlim(), axis.transData.transform
        ends = [to((at, 0))[0] for at in (left, right)]
        return [(to((at, 0))[0] - ends[0]) / (ends[1] - ends[0]) for at in (100, 200, 800)]

    near, end, far = shares(*runs, alone)
    assert near == pytest.approx(end / 2) and 0.65 < end < 0.75 and far < 1
    assert shares(runs[0], runs[1])[:2] == pytest.approx([100 / 204, 200 / 204])
    assert shares(alone)[0] == pytest.approx(100 / 816)


def test_marks_at_one_place_are_all_seen_and_rounds_of_few_clients_are_named():
    """Printed and ours both in round 3, and another row's there, too; round 4 draws one client of ten."""
    run = replace(trained(), history={**columns([0.1, 0.5, 0.7, 0.3, 0.8]), "clients": [10, 10, 9, 1, 10]})
    found = [outcome(row, 3, (3, 3), run=run) for row in ("fedavg", "fedsmoo")]
    axis = targets.draw([targets.Panel("here", [("FedAvg", run)], found)]).axes[0]
    marks = [line for line in axis.lines if line.get_marker() == "o" and list(line.get_xdata()) == [3]]
    assert [line.get_markerfacecolor() == "white" for line in marks] == [False, False, True, True]
    shown = sorted(marks, key=lambda line: line.get_zorder())
    sizes = [line.get_markersize() for line in shown]
    assert len({line.get_zorder() for line in marks}) == 4 and sizes == sorted(sizes, reverse=True) and sizes[3] > 0.9
    (said,) = [text.get_text() for text in axis.texts if "client" in text.get_text()]
    assert said == "1 client" and [4, 4] in [list(line.get_xdata()) for line in axis.lines]
    usual = replace(run, history={**run.history, "clients": [10, 10, 9, 6, 10]})
    for runs in ([usual], [run, usual]):
        axis = targets.draw([targets.Panel("here", [("FedAvg", each) for each in runs], found)]).axes[0]
        assert not [text for text in axis.texts if "client" in text.get_text()]
