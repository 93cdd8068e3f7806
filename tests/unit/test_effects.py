"""Tables of effects: choices against the form they differ from, over all columns, and what is said of them."""

from __future__ import annotations

import csv
import json
import re
import string
from pathlib import Path

import numpy as np
import pytest

from flatfed import cli, experiment, forms
from flatfed.errors import ConfigError
from flatfed.experiment import scales
from flatfed.papers import significance
from flatfed.specs import cell as cell_files
from flatfed.specs.cell import Cell
from flatfed.specs.table import TableSpec
from flatfed.tables import blocks, effects, write
from flatfed.tables.filled_table import FilledTable
from made import edited
from power import power

ROOT = Path(__file__).resolve().parents[2]
EXP = experiment.load(ROOT)
SEEDS = list(range(1, 11))


def cell(column, row, values, **changes):
    """Return a cell of differences, a seed each, in stored units; without ``values`` its runs are missing."""
    status = "ok" if values else "missing"
    about = {
        **{"table": "effects", "column": column, "row": row, "scale": "preview", "metric": "test_accuracy"},
        **{"unit": "fraction", "printed_unit": "pp", "relative": "difference", "base": "plain", "status": status},
        **{"value": float(np.mean(values)) if values else None, "spread": 0.0, "n": len(values)},
        **{"values": values, "target": None, "seeds": SEEDS[: len(values)], "runs": [], "paper_value": None},
        **{"paper_spread": None, "paper_decimals": None, "paper_note": "", "difference": None, "compare": "values"},
    }
    return Cell(**{**about, **changes})


def specify(cells, rows, columns=("one", "two")):
    """Return the specification of a table of effects with these rows and columns."""
    return forms.read(
        TableSpec,
        {
            **{"table": "effects", "scale": "preview", "title": "Choices", "metric": "Test accuracy", "unit": "pp"},
            **{"cells": str(cells), "printed": False, "setting": "digits, cnn_tiny"},
            "rows": [{"id": row, "label": row.capitalize()} for row in rows],
            "columns": [{"id": column, "headers": ["CIFAR-10", column]} for column in columns],
            "against": {row: "Plain" for row in rows},
        },
        "--spec",
    )


def of(values, columns=("one", "two")):
    """Return a table of effects with its cells, where row -> a list of values for each column."""
    cells = {
        column: {row: cell(column, row, list(each[place])) for row, each in values.items()}
        for place, column in enumerate(columns)
    }
    return FilledTable(specify("", list(values), columns), cells)


def test_a_choice_over_all_columns_by_hand():
    """Each seed's mean over the two columns is 0.01: 2 of 2^6 patterns are as extreme, of two choices twice that."""
    up, down = [0.02, 0.03, 0.0, 0.01, 0.02, 0.01], [0.0, -0.01, 0.02, 0.01, 0.0, 0.01]
    first, second = effects.pooled(of({"worse": (up, down), "none": ([0.0] * 6, [0.0] * 6)}))
    assert first.values == pytest.approx([0.01] * 6)
    assert (first.p, first.corrected, first.verdict) == (2 / 64, 4 / 64, "open")
    assert first.interval.mean == pytest.approx(0.01) and first.interval.low == pytest.approx(0.01)
    assert (second.p, second.corrected, second.verdict) == (1.0, 1.0, "less than half a point")
    assert second.texts == ("+0.00 [+0.00, +0.00]", "1.000", "1.000", "less than half a point")


def test_rows_that_lack_runs_count_among_the_tests():
    ten = [0.01 + 0.001 * seed for seed in range(10)]
    table = of({"a": (ten, ten), "b": ([], [])})
    (found,) = effects.pooled(table)
    assert found.row == "a" and found.corrected == pytest.approx(2 * found.p) == pytest.approx(4 / 1024)
    assert effects.sentence(table, [found]).endswith("1 lacks runs.")
    other = of({"a": (ten, ten), "b": (ten, ten)})
    other.by_column["two"]["b"] = cell("two", "b", ten, seeds=SEEDS[::-1])
    assert [each.row for each in effects.pooled(other)] == ["a"], "other seeds are not paired"


def test_what_is_said_names_the_scale_and_every_choice_that_differs():
    ten = [0.02 + 0.001 * seed for seed in range(10)]
    small = [0.001, -0.001] * 5
    wide = [0.03, -0.03] * 5
    table = of({"far": (ten, ten), "near": (small, small), "unknown": (wide, wide)})
    found = effects.pooled(table)
    assert [each.verdict for each in found] == ["differs", "less than half a point", "open"]
    assert effects.sentence(table, found) == (
        "At preview scale, over 2 columns and 10 seeds, of 3 choices 1 can be told from chance (Far +2.45); 1 differs "
        "by less than 0.5 points, if at all; of 1 neither can be said."
    )
    assert effects.sentence(table, []) == "At preview scale none of 3 choices has all its runs yet."


def test_a_choice_that_diverged_is_not_called_missing():
    ten = [0.02 + 0.001 * seed for seed in range(10)]
    table, alone = of({"far": (ten, ten), "gone": ([], [])}), of({"gone": ([], [])})
    for each in (table, alone):
        each.by_column["one"]["gone"] = cell("one", "gone", [], status="diverged")
    assert effects.sentence(table, effects.pooled(table)).endswith("1 diverged.")
    alone = effects.sentence(alone, [])
    assert alone.startswith("At preview scale, over 2 columns, of 1 choice 0 can") and alone.endswith("1 diverged.")


@pytest.fixture
def made(tmp_path):
    """A table of two choices in files, one of them without runs."""
    cells = tmp_path / "cells"
    ten = [0.02 + 0.001 * seed for seed in range(10)]
    for column, row, one in of({"far": (ten, ten[::-1]), "lacking": ([], [])}).cells:
        (cells / column.id).mkdir(parents=True, exist_ok=True)
        cell_files.write(cells / column.id / f"{row.id}.json", one)
    spec = specify(cells, ["far", "lacking"])
    write.make(spec, tmp_path)
    return spec, tmp_path


def test_a_table_of_effects_in_four_formats(made):
    spec, folder = made
    table = blocks.read(spec)
    assert [block.heading for block in table.blocks] == ["CIFAR-10", "Over all 2 columns"]
    assert table.blocks[1].rows[0][1][0].ours == table.effects[0].texts[0] == "+2.45 [+2.45, +2.45]"
    assert [entry.status for entry in table.blocks[1].rows[1][1]] == ["missing"] * 4
    for ending in ("md", "html", "tex"):
        text = (folder / f"effects.{ending}").read_text()
        assert "differs" in text and "At preview scale, over 2 columns and 10 seeds" in text, ending
        assert "Against Plain: Far; Lacking." in text and "best of its column" not in text.lower(), ending
    rows = list(csv.DictReader((folder / "effects.csv").open()))
    assert [row["column"] for row in rows] == ["one", "two", "one", "two", "*"]
    assert rows[-1]["row"] == "far" and rows[-1]["verdict"] == "differs" and float(rows[-1]["p"]) == 2 / 1024
    assert float(rows[-1]["p_holm"]) == 4 / 1024 and float(rows[-1]["value"]) == 0.0245
    assert len(rows[-1]["values"].split(";")) == 10 and rows[0]["p"] == ""


def test_no_table_without_a_difference_has_a_false_claim_more_often_than_six_in_a_hundred():
    """2,000 tables of chance: five choices, two columns whose noise goes together, ten seeds that are skewed."""
    random = np.random.default_rng(11)
    false = 0
    for _ in range(2000):
        shared = random.exponential(0.01, (5, 1, 10)) * random.choice([-1, 1], (5, 1, 10))
        values = shared + random.normal(0.0, 0.005, (5, 2, 10))
        found = effects.pooled(of(dict(zip("abcde", values.tolist(), strict=True))))
        false += any(effect.verdict == effects.DIFFERS for effect in found)
    assert 0.02 <= false / 2000 <= 0.06


@pytest.mark.parametrize(("seeds", "rows"), [(6, "a"), (8, "a"), (10, "abcd"), (10, string.ascii_lowercase[:18])])
def test_the_power_is_what_a_simulation_says(seeds, rows):
    """A difference of twice the spread in one row; the others have none."""
    random = np.random.default_rng(5)
    found = 0
    for _ in range(600):
        values = {row: [random.normal(0.02 if row == "a" else 0.0, 0.01, seeds).tolist()] for row in rows}
        found += effects.pooled(of(values, ["one"]))[0].verdict == effects.DIFFERS
    assert found / 600 == pytest.approx(power(seeds, 2.0, len(rows)), abs=0.05)


def test_the_table_of_the_house():
    """Every row differs from what it is against by what public code does, or a paper; each pair shares its seeds."""
    table = EXP.tables["effects"]
    assert len(table.entries) >= 10 and len(EXP.seeds("preview", "fedsmoo-cifar10~effects", None)) == 10
    for one in EXP.cells("preview", "effects"):
        assert one.spec.relative == "difference" and one.spec.base == table.entries[one.spec.row].settings["against"]
        assert len(one.spec.sources.runs) == len(one.spec.base_sources.runs) == 10
        own, base = (run.description for run in (one.runs[0], one.runs[len(one.runs) // 2]))
        assert own["partition"] == base["partition"] and own["update"] != base["update"]
        one, other = own["update"]["params"], base["update"]["params"]
        assert len({key for key in one.keys() | other.keys() if one.get(key) != other.get(key)}) == 1, "one difference"
    spec = EXP.table_spec("preview", "effects")
    assert spec.against["fedsmoo"] == "FedSMOO, s as in Algorithm 1" and not spec.printed


def test_what_is_refused(tmp_path, monkeypatch, capsys):
    with pytest.raises(
        ConfigError, match=r"with 3 seeds none of 18 choices could be told from chance at 5 %; wanted: at"
    ):
        experiment.load(ROOT, {**EXP.config, "seeds": [1, 2, 3]}).cells("preview", "effects")
    few = experiment.load(ROOT, {**EXP.config, "seeds": [1, 2, 3]})
    assert "effects" not in [name for name, _ in scales.every(few, "preview")[0]]
    with pytest.raises(ConfigError, match=r"effects.yaml has `scales: \[preview\]`, so that there is none; ask for"):
        EXP.cells("paper", "effects")
    monkeypatch.chdir(tmp_path)
    for named in ("effects", "effects_cnn"):
        assert cli.main(["effects", named, "--config", "seeds=[1,2,3]"]) == 2
        assert f"config/tables/{named}.yaml: with 3 seeds none of" in capsys.readouterr().err
    assert cli.main(["effects", "--config", "seeds=[1,2,3]"]) == 0
    assert capsys.readouterr().err.count("with 3 seeds none of") == 4, "said of each, where none is asked for by name"
    assert cli.main(["effects", "--scale", "paper"]) == 0
    assert "Left out: results/paper/tables/effects.md: config/tables/effects.yaml has" in capsys.readouterr().err
    assert cli.main(["effects", "fedsmoo2023_T1"]) == 2
    assert (
        "table 'fedsmoo2023_T1' is not of kind effects; those that are: effects, effects_cifar100"
        in capsys.readouterr().err
    )
    assert cli.main(["effects", "efects"]) == 2
    assert "did you mean 'effects'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"metric": "seconds_per_round", "unit": "s"},
            "effects.yaml: metric: 'seconds_per_round' is no share of images",
        ),
        ({"metrics": [{"metric": "test_accuracy", "unit": "pp"}]}, "effects.yaml: metrics: a table of effects has one"),
        ({"rows": [{"row": "fedavg", "against": "fedavg"}]}, "rows[0]: against: 'fedavg' is the row itself"),
        ({"rows": [{"row": "fedavg", "against": "fedavgg"}]}, "did you mean 'fedavg'?"),
        ({"rows": ["fedavg"]}, "rows[0]: key 'against' is missing"),
    ],
)
def test_what_is_no_table_of_effects_is_refused(tmp_path, change, said):
    root = edited(tmp_path, "tables/effects.yaml", lambda document: document.update(change))
    with pytest.raises(ConfigError) as refused:
        experiment.load(root)
    assert said in str(refused.value)


def test_groups_with_different_seeds_are_refused(tmp_path):
    def two(document):
        document["columns"].append({"protocol": "fedsmoo-cifar10", "header": "other", "splits": ["dir0.6-200"]})

    root = edited(tmp_path, "tables/effects.yaml", two)
    with pytest.raises(ConfigError, match=r"its protocols have different seeds .* do not pair"):
        experiment.load(root).cells("preview", "effects")


def test_the_command_answers_without_any_run_and_as_json(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["effects", "--json", "out.json"]) == 0
    said = capsys.readouterr().out
    assert "effects: At preview scale none of 18 choices has all its runs yet." in said
    setting = "CIFAR-10, 100 clients, 10% active, cnn, 45 rounds of 2 local epochs, batch 50"
    assert f"effects_cnn: At paper scale ({setting}) none of 3 choices has all its runs yet." in said
    assert "\n  snakemake --cores all results/preview/tables/effects_cifar100." in said
    first, *others = json.loads(Path("out.json").read_text())
    assert first == {"table": "effects", "scale": "preview", "choices": []} and len(others) == 3


PUBLISHED = ROOT / "results/published/effects"


@pytest.mark.parametrize("table", ["effects", "effects_cifar100", "effects_cnn", "effects_ours"])
def test_a_published_table_is_what_its_own_cells_come_to(table):
    """From the values of every seed in its CSV; and its rows and columns are those of the configuration."""
    lines = list(csv.DictReader((PUBLISHED / f"{table}.csv").open()))
    declared = EXP.tables[table]
    assert {line["row"] for line in lines} == set(declared.rows)
    assert {line["column"] for line in lines} == {*declared.columns, "*"}
    ps = {}
    for row in declared.rows:
        of_row = {line["column"]: line for line in lines if line["row"] == row}
        columns = [list(map(float, of_row[column]["values"].split(";"))) for column in declared.columns]
        seeds = np.mean(columns, axis=0)
        assert list(map(float, of_row["*"]["values"].split(";"))) == pytest.approx(seeds.tolist(), abs=1e-9)
        ps[row] = float(significance.sign_flip(seeds))
        assert float(of_row["*"]["p"]) == pytest.approx(ps[row])
    corrected = dict(zip(ps, significance.holm(list(ps.values())), strict=True))
    for line in lines:
        if line["column"] == "*":
            assert float(line["p_holm"]) == pytest.approx(corrected[line["row"]])


def test_what_docs_quote_is_what_was_published():
    published = "".join(page.read_text() for page in PUBLISHED.glob("*.md"))
    said = " ".join((ROOT / "docs/which-code.md").read_text().split())
    quoted = re.findall(r"[+−]\d+\.\d\d \[[^\]]+\]", said)
    assert len(quoted) >= 12
    for interval in quoted:
        assert interval in published.replace("\\", ""), interval
