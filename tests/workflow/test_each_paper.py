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


@full
def test_dfedsams_table_has_train_accuracies_of_the_server_or_the_nodes_own(project):
    table, split = "dfedsam2023_T1", "iid-100-norep"
    cells = cells_of(project, table, [f"cifar10-{split}.*"])
    for row in {row for _, row in cells}:
        server = row in ("fedavg", "fedsam")
        folder = project.root / f"results/preview/runs/dfedsam-cifar10/{split}{'' if server else '-clique'}/{row}/seed1"
        with (folder / "metrics.csv").open(newline="") as file:
            *_, last = csv.DictReader(file)
        shown = "train_accuracy" if server else "node_train_accuracy"
        assert ("node_train_accuracy" in last) != server and "train_accuracy" in last
        train, error = (cells[f"cifar10-{split}.{name}", row] for name in ("train_accuracy", "generalization_error"))
        assert train["metric"] == shown and float(train["value"]) == pytest.approx(float(last[shown]))
        assert float(error["value"]) == pytest.approx(float(last[shown]) - float(last["test_accuracy"]))
