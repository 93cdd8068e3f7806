"""Scripts of studies/: made data with known answers, and the published pages."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import disputed

ROOT = Path(__file__).resolve().parents[2]
HEAD = "metric,unit,dataset,model,partition,partition_param,clients,participation,algorithm,variant,value"


def cells_of(folder, sources, **numbers):
    """Return the cells of sources from made reference files; ``numbers``: table -> {algorithm: accuracy}."""
    for table, of_table in numbers.items():
        lines = [f"test_accuracy,percent,cifar10,cnn,iid,,100,0.1,{row},,{value}" for row, value in of_table.items()]
        (folder / f"{table}.csv").write_text("\n".join([HEAD, *lines]))
    return disputed.printed(sources, folder)


SOURCES = {"one": {"tables": ["one"]}, "two": {"tables": ["two"]}}


def test_disputed_cells_and_their_ranking(tmp_path):
    """One of the six pairs of four rows is in the other order: tau = (5 - 1) / 6."""
    one, two = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0, "only": 9.0}, {"a": 1.5, "b": 3.0, "c": 2.0, "d": 4.0}
    cells = cells_of(tmp_path, SOURCES, one=one, two=two)
    assert disputed.disputed(cells).apart.droplevel("column").to_dict() == {"a": 0.5, "b": 1.0, "c": 1.0, "d": 0.0}
    (ranking,) = disputed.rankings(cells).itertuples()
    assert ranking.column == "CIFAR-10, cnn, IID, 10 % of 100 clients"
    assert ranking.tau == pytest.approx(4 / 6) and ranking.rows == 4 and ranking.same_best
    assert disputed.rankings(cells, least=5).empty
    tied = cells_of(tmp_path, SOURCES, one={**one, "c": 4.0}, two=two)
    assert not disputed.rankings(tied).same_best.any()
    assert disputed.rankings(cells_of(tmp_path, SOURCES, one=dict.fromkeys("abcd", 1.0), two=two)).empty


def test_the_interval_of_tau():
    """Eight rows: 1.96 sqrt(0.437 / 4) = 0.6478 around atanh(0.5) = 0.5493."""
    assert disputed.interval(0.5, 8) == pytest.approx((-0.0982, 0.8327), abs=1e-4)
    assert disputed.interval(1.0, 8) is None and disputed.interval(0.5, 4) is None


def test_the_best_of_several_algorithms(tmp_path):
    best_of = {"best": ["x", "y"]}
    cells = cells_of(tmp_path, SOURCES, one={"x": 70.0, "y": 75.0}, two={"best": 71.0})
    found = disputed.disputed(disputed.with_best(cells, best_of)).loc[(slice(None), "best"), :].iloc[0]
    assert found.to_dict() == {"one": 75.0, "two": 71.0, "apart": 4.0}
    few = cells_of(tmp_path, SOURCES, one={"x": 70.0}, two={"best": 71.0})
    assert disputed.disputed(disputed.with_best(few, best_of)).empty


def test_two_tables_of_a_source_that_differ_are_refused(tmp_path):
    with pytest.raises(ValueError, match="one: its tables print different numbers for"):
        cells_of(tmp_path, {"one": {"tables": ["one", "two"]}}, one={"a": 1.0}, two={"a": 2.0})


def test_disputed_cells_equal_those_counted_by_another_program():
    """The counts and correlations of the notes with which the sources were gathered."""
    sources = yaml.safe_load((ROOT / "studies/sources.yaml").read_text())
    best_of = sources["fedwmsam2025"]["best_of"]
    cells = disputed.with_best(disputed.printed(sources, ROOT / "config/reference"), best_of)
    several = disputed.disputed(cells)
    assert (len(several), sum(several.apart > 5), sum(several.apart > 10)) == (90, 41, 12)
    both = cells[["fedsmoo2023", "fedwmsam2025"]].dropna()
    assert len(both) == 64
    largest = (both.fedsmoo2023 - both.fedwmsam2025).abs().idxmax()
    assert (largest[1], *both.loc[largest]) == ("fedgamma", 43.24, 1.98)
    found = disputed.rankings(both)
    assert found.tau.round(2).tolist() == [0.57, 0.5, 0.57, 0.21, 0.29, 0.14, 0.07, -0.14]
    assert found.same_best.sum() == 1


def test_docs_disputed_is_what_the_script_writes(tmp_path, monkeypatch):
    for folder in ("studies", "config"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    (tmp_path / "docs").mkdir()
    monkeypatch.setattr(disputed, "ROOT", tmp_path)
    disputed.main()
    assert (tmp_path / "docs/disputed.md").read_text() == (ROOT / "docs/disputed.md").read_text(), "make results-page"
