"""Scripts of studies/: made data with known answers, and the published pages."""

from __future__ import annotations

import csv
import shutil

import pandas as pd
import pytest
import yaml

import algorithms as algorithm_pages
import disputed
import effects
import published
import which_code
from flatfed import plan
from repository import ROOT
from samples import full

PAIRS = yaml.safe_load((ROOT / "studies/effects.yaml").read_text())
HEAD = "metric,unit,dataset,model,partition,partition_param,clients,participation,algorithm,variant,value"


def cells_of(folder, sources, **numbers):
    """Return the cells of sources from made reference files; ``numbers``: table -> {algorithm: accuracy}."""
    for table, of_table in numbers.items():
        lines = [f"test_accuracy,percent,cifar10,cnn,iid,,100,0.1,{row},,{value}" for row, value in of_table.items()]
        (folder / f"{table}.csv").write_text("\n".join([HEAD, *lines]))
    return disputed.printed(sources, folder)


def test_disputed_cells_and_their_ranking(tmp_path):
    """One of the six pairs of four rows is in the other order: tau = (5 - 1) / 6."""
    sources = {"one": {"tables": ["one"]}, "two": {"tables": ["two"]}}
    one, two = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0, "only": 9.0}, {"a": 1.5, "b": 3.0, "c": 2.0, "d": 4.0}
    cells = cells_of(tmp_path, sources, one=one, two=two)
    assert disputed.disputed(cells).apart.droplevel("column").to_dict() == {"a": 0.5, "b": 1.0, "c": 1.0, "d": 0.0}
    (ranking,) = disputed.rankings(cells).values.tolist()
    assert ranking == ["CIFAR-10, cnn, IID, 10 % of 100 clients", "one", "two", 4, 0.75, 1, pytest.approx(4 / 6), True]
    tied = cells_of(tmp_path, sources, one={**one, "c": 4.0}, two=two)
    assert not disputed.rankings(tied).same_best.any()
    with pytest.raises(ValueError, match="one: its tables print different numbers for"):
        cells_of(tmp_path, {"one": {"tables": ["one", "two"]}}, one={"a": 1.0}, two={"a": 2.0})


def test_the_interval_of_tau():
    """Eight rows: 1.96 sqrt(0.437 / 4) = 0.6478 around atanh(0.5) = 0.5493."""
    assert disputed.interval(0.5, 8) == pytest.approx((-0.0982, 0.8327), abs=1e-4)
    assert disputed.interval(1.0, 8) is None and disputed.interval(0.5, 4) is None


def lines_of(**rows):
    """Return the lines of a table's CSV; ``rows``: row -> its values in each column, seed by seed; none: missing."""
    lines = [
        {"table": "made", "scale": "preview", "row": row, "label": row.capitalize(), "column": f"column{place}"}
        | {"status": "ok" if values else "missing", "seeds": ";".join(str(seed + 1) for seed, _ in enumerate(values))}
        | {"values": ";".join(map(str, values))}
        for row, columns in rows.items()
        for place, values in enumerate(columns)
    ]
    return pd.DataFrame(lines)


def test_the_effect_of_a_choice_by_hand():
    """Each seed has one point on average: 2 of 2^6 patterns of signs are as extreme. Holm: four times that."""
    plain = [0.5] * 6
    up, down = [0.52, 0.53, 0.5, 0.51, 0.52, 0.51], [0.5, 0.49, 0.52, 0.51, 0.5, 0.51]
    lines = lines_of(plain=[plain, plain], worse=[up, down], none=[plain, plain], short=[up, up[:5]], lost=[up, []])
    pairs = dict.fromkeys(("worse", "none", "short", "lost"), "plain")
    found, p, corrected = effects.effects(effects.accuracies(lines), pairs)
    assert list(found) == ["worse", "none"] and [*found["worse"].mean(axis=1)] == pytest.approx([1.0] * 6)
    assert p == {"worse": 2 / 64, "none": 1.0}
    assert corrected == {"worse": 8 / 64, "none": 1.0}, "pairs that lack runs count among the tests"
    text = effects.section(lines, pairs, "Made")
    for words in (
        "| Worse | Plain | +1.50 ",
        "| +1.00 [+1.00, +1.00] | 0.031 | 0.125 | open |",
        "| +0.00 [+0.00, +0.00] | 1.000 | 1.000 | less than half a point |",
        "| Lost | Plain | – | – | – | – | – | missing |",
        "Verdicts: less than half a point: 1, missing: 2, open: 1.",
    ):
        assert words in text, text
    ten = [0.51 + 0.001 * seed for seed in range(10)]
    assert "| differs |" in effects.section(lines_of(plain=[[0.5] * 10], ten=[ten]), {"ten": "plain"}, "Made")


@pytest.mark.parametrize("table", PAIRS)
def test_published_tables_are_those_of_the_configuration(table):
    declared = plan.load(ROOT).tables[table]
    lines = list(csv.DictReader((ROOT / f"results/published/effects/{table}.csv").open()))
    cells = [(row, column) for row in declared.rows for column in declared.columns]
    assert [(line["row"], line["column"]) for line in lines] == cells
    assert {*PAIRS[table], *PAIRS[table].values()} == {*declared.rows}


def test_an_edited_csv_ends_a_page_with_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(published, "ROOT", tmp_path)
    monkeypatch.setattr(published, "PUBLISHED", tmp_path / "results/published")
    shutil.copytree(ROOT / "results/published/effects", tmp_path / "results/published/effects")
    shutil.copy(ROOT / "results/published/SHA256SUMS", tmp_path / "results/published")
    assert len(published.read_csv(effects.PUBLISHED[0]))
    path = tmp_path / effects.PUBLISHED[0]
    path.write_text(path.read_text().replace("0.9", "0.8", 1))
    with pytest.raises(SystemExit, match=r"effects/effects\.csv is not the file whose SHA"):
        published.read_csv(effects.PUBLISHED[0])


@full
def test_pages_are_what_the_scripts_write():
    """`make results-page` writes them."""
    assert which_code.page() == (ROOT / "docs/which-code.md").read_text(encoding="utf-8")
    pages = {path.stem: path.read_text(encoding="utf-8") for path in algorithm_pages.PAGES.glob("*.md")}
    assert algorithm_pages.pages() == pages
