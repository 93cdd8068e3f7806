"""A table of each paper, made for real on small data: all of its rows, some of its columns, two rounds a run."""

import csv

import pytest

from samples import full

# Table -> (its columns made here, a column and row of it).
TABLES = {
    "fedsam2022_T5": (["dir0.6-100-p20.*"], "dir0.6-100-p20.client_test_accuracy", "fedsam"),
    "fedsmoo2023_T2": (["dir0.1-100.*"], "dir0.1-100.hessian_top_eigenvalue", "fedsmoo"),
    "dfedsam2023_T2": (["dir0.6-100-norep-grid"], "dir0.6-100-norep-grid", "dfedsam"),
    "fedlesam2024_T2": (["cifar10-dir0.1-100"], "cifar10-dir0.1-100", "fedlesam_d"),
}


def cells_of(project, table, columns):
    """Return (column, row) -> cell of the ``columns`` of a table, which Snakemake makes."""
    asked = [{"table": table, "columns": columns}]
    project.edit_yaml("config/config.yaml", lambda config: config.update(tables=asked))
    project.make(f"results/preview/tables/{table}.csv")
    with (project.root / f"results/preview/tables/{table}.csv").open(newline="") as file:
        cells = {(cell["column"], cell["row"]): cell for cell in csv.DictReader(file)}
    assert {cell["status"] for cell in cells.values()} <= {"ok", "not_reached"}, "nothing is missing"
    return cells


@full
@pytest.mark.parametrize("table", TABLES)
def test_a_table_of_each_paper(project, table):
    columns, column, row = TABLES[table]
    cell = cells_of(project, table, columns)[column, row]
    assert cell["value"] and cell["seeds"] == "1"
    assert cell["paper_value"] == cell["paper_spread"] == ""
