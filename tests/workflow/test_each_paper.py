"""A table of each paper, made for real on small data: all of its rows, some of its columns, two rounds a run."""

import csv

import pytest

from samples import sampled

# Table -> (its columns made here, a column and row of it, what the paper prints there).
TABLES = {
    "fedsam2022_T5": (["dir0.6-100-p20.*"], "dir0.6-100-p20.client_test_accuracy", "fedsam", 0.5469),
    "fedsmoo2023_T2": (["dir0.1-100.*"], "dir0.1-100.hessian_top_eigenvalue", "fedsmoo", 107.44),
    "dfedsam2023_T1": (["cifar10-iid-100-norep.*"], "cifar10-iid-100-norep.train_accuracy", "dfedavg", 0.9995),
    "dfedsam2023_T2": (["dir0.6-100-norep-grid"], "dir0.6-100-norep-grid", "dfedsam", 0.8528),
    "fedlesam2024_T2": (["cifar10-dir0.1-100"], "cifar10-dir0.1-100", "fedlesam_d", 0.8008),
}


@pytest.mark.parametrize("table", sampled(TABLES, ["dfedsam2023_T1"]))
def test_a_table_of_each_paper(project, table):
    columns, column, row, printed = TABLES[table]
    asked = [{"table": table, "columns": columns}]
    project.edit_yaml("config/config.yaml", lambda config: config.update(tables=asked))
    project.make()
    folder = project.root / "results/preview"
    with (folder / f"tables/{table}.csv").open(newline="") as file:
        cells = list(csv.DictReader(file))
    assert {cell["status"] for cell in cells} <= {"ok", "not_reached"}, "nothing is missing"
    (cell,) = (cell for cell in cells if (cell["column"], cell["row"]) == (column, row))
    assert cell["value"] and cell["seeds"] == "1"
    assert float(cell["paper_value"]) == pytest.approx(printed)
    if table == "dfedsam2023_T1":
        check_train_accuracy(folder, {(cell["column"], cell["row"]): cell for cell in cells})


def check_train_accuracy(folder, lines):
    """Check that DFedSAM's Table 1 shows the server's or the nodes' own."""
    column = "cifar10-iid-100-norep"
    for row in {row for _, row in lines}:
        split = "iid-100-norep" + ("" if row in ("fedavg", "fedsam") else "-clique")
        with (folder / f"runs/dfedsam-cifar10/{split}/{row}/seed1/metrics.csv").open(newline="") as file:
            *_, last = csv.DictReader(file)
        shown = "train_accuracy" if row in ("fedavg", "fedsam") else "node_train_accuracy"
        assert ("node_train_accuracy" in last) == (shown == "node_train_accuracy") and "train_accuracy" in last
        train, error = (lines[f"{column}.{name}", row] for name in ("train_accuracy", "generalization_error"))
        assert train["metric"] == shown and float(train["value"]) == pytest.approx(float(last[shown]))
        assert float(error["value"]) == pytest.approx(float(last[shown]) - float(last["test_accuracy"]))
