"""`seeds_together`: one job for all seeds of a run, and each run as if it had been alone."""

import csv
import json

from project import ROWS

RUNS = "results/preview/runs/fedsmoo-cifar10/dir0.6-100"


def contents(folder):
    """Return the bytes of a run's model and the lines of its metrics, clocks aside."""
    with open(folder / "metrics.csv", newline="") as file:
        lines = [{key: text for key, text in line.items() if key != "seconds"} for line in csv.DictReader(file)]
    return (folder / "model.safetensors").read_bytes(), lines


def test_one_job_trains_all_seeds_of_a_run(project, tmp_path):
    """Seed 1 is there from before: it stays as it is, and the table has both seeds."""
    alone = {row: contents(project.root / RUNS / row / "seed1") for row in ROWS}
    fresh = project.clone(tmp_path / "fresh")
    fresh.edit_yaml("config/config.yaml", lambda config: config.update(seeds=[1, 2], seeds_together=True))
    planned = fresh.planned()
    assert len(planned["train"]) == len(ROWS), "a job a row, not one for each seed"
    fresh.make()
    assert fresh.planned() == {}
    for row in ROWS:
        assert contents(fresh.root / RUNS / row / "seed1") == alone[row]
        assert "together" not in json.loads((fresh.root / RUNS / row / "seed1/run.json").read_text())
    for seed in (1, 2):
        (fresh.root / RUNS / f"fedsmoo/seed{seed}/run.json").unlink()
    fresh.make("--", f"{RUNS}/fedsmoo/seed1/run.json")
    assert contents(fresh.root / RUNS / "fedsmoo/seed1") == alone["fedsmoo"], "trained beside seed 2, the same bytes"
    assert json.loads((fresh.root / RUNS / "fedsmoo/seed1/run.json").read_text())["together"] == 2
    with (fresh.root / "results/preview/tables/fedsmoo2023_T1.csv").open(newline="") as file:
        assert {line["n"] for line in csv.DictReader(file)} == {"2"}


def test_it_needs_seeds(project):
    project.edit_yaml("config/config.yaml", lambda config: config.update(seeds_together=True))
    text = project.snakemake("--dry-run").text
    assert "config/config.yaml or --config: seeds_together: true needs two `seeds` or more, such as [1, 2]" in text
    assert "Traceback" not in text
