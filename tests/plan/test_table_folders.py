"""Tables of the user's own, in folders outside config/."""


import pytest

import made
from flatfed import plan
from flatfed.errors import ConfigError
from repository import ROOT

TABLE = """
title: Mine
paper: ours
reference: none
reason: not a paper's table
metric: test_accuracy
unit: percent
rows: [fedavg, {row}]
columns:
  - {{protocol: fedsmoo-cifar10, splits: [dir0.6-100]}}
"""


def load(folder):
    return plan.load(ROOT, {"scale": "preview", "tables": [], "figures": [], "table_folders": [str(folder)]})


def test_a_table_elsewhere_is_one_more(tmp_path):
    (tmp_path / "mine.yaml").write_text(TABLE.format(row="fedsam"))
    found = load(tmp_path)
    assert [cell.row for cell in made.first_numbers(found, "preview", "mine")] == ["fedavg", "fedsam"]
    assert set(found.tables) - {"mine"} == set(plan.load(ROOT).tables)


def test_mistakes_name_the_file_where_it_is(tmp_path):
    (tmp_path / "mine.yaml").write_text(TABLE.format(row="fedsan"))
    with pytest.raises(ConfigError, match=rf"{tmp_path}/mine\.yaml: rows\[1\].*did you mean 'fedsam'"):
        load(tmp_path).check()


def test_a_name_that_is_taken_and_a_folder_that_is_none(tmp_path):
    (tmp_path / "fedsmoo2023_T1.yaml").write_text(TABLE.format(row="fedsam"))
    with pytest.raises(ConfigError, match=r"there is a table 'fedsmoo2023_T1' already, config/tables/fedsmoo2023_T1"):
        load(tmp_path)
    with pytest.raises(ConfigError, match=r"table_folders: there is no folder '.*nowhere' \(/"):
        load(tmp_path / "nowhere").check()
