"""What papers tuned: choices first, by one target; then runs that take them."""

import json

import pytest
from project import Project

TABLE, SPLIT, ROWS = "fedsam2022_T1", "dir0.6-100-p20", ["fedavg", "fedsam"]
TUNING = f"results/preview/tuning/fedsam-cifar10/{SPLIT}"
RATES = ["0.316228", "0.1", "0.0316228"]


@pytest.fixture(scope="module")
def fedsam(tmp_path_factory):
    """One column of FedSAM's Table 1, two of its rows, two rounds."""
    project = Project.copied(tmp_path_factory.mktemp("fedsam"))
    column = f"cifar10-{SPLIT}.client_test_accuracy"
    project.edit_yaml(
        "config/config.yaml", lambda config: config.update(tables=[{"table": TABLE, "columns": [column]}], figures=[])
    )
    project.edit_yaml(f"config/tables/{TABLE}.yaml", lambda table: table.update(rows=ROWS))
    project.edit_yaml("config/protocols/fedsam-cifar10.yaml", lambda protocol: protocol["preview"].update(rounds=2))
    return project


def test_the_target_is_one_training_per_point_and_one_choice_per_row(fedsam):
    jobs = fedsam.planned("tuning")
    assert jobs["train"] == {f"{TUNING}/{row}/learning_rate={rate}" for row in ROWS for rate in RATES}
    assert jobs["choose"] == {f"{TUNING}/{row}/choice.json" for row in ROWS}
    assert jobs["partition"] == {f"results/preview/partitions/fedsam-cifar10/{SPLIT}/seed1.npz"}
    assert jobs.keys() == {"fetch", "partition", "train", "choose"}
    assert fedsam.planned("tuning", "--config", "tune=true") == jobs


def test_ordinary_runs_need_no_choice(fedsam):
    jobs = fedsam.planned()
    assert "choose" not in jobs
    assert jobs["train"] == {f"results/preview/runs/fedsam-cifar10/{SPLIT}/{row}/seed1" for row in ROWS}


def test_tuned_runs_without_choices_are_refused_before_the_first_job(fedsam):
    done = fedsam.snakemake("--config", "tune=true")
    assert done.returncode != 0
    assert f"{TUNING}/fedavg/choice.json, which does not exist yet" in done.text
    assert "make it: snakemake --cores all --config scale=preview -- " in done.text
    assert "Execute" not in done.text and "Traceback (most recent call last)" not in done.text


def test_choices_are_made_then_taken_then_refused_when_stale(fedsam):
    fedsam.make("tuning")
    rates = {}
    for row in ROWS:
        choice = json.loads((fedsam.root / TUNING / row / "choice.json").read_text())
        scores = {point["values"]["learning_rate"]: point["accuracy"] for point in choice["points"]}
        assert choice["chosen"] == {"learning_rate": max(scores, key=scores.get)}
        rates[row] = choice["chosen"]["learning_rate"]
        assert not list((fedsam.root / TUNING / row).rglob("*.safetensors")), "models of tuning runs are not kept"
    assert fedsam.planned("tuning") == {}

    done = fedsam.make("--config", "tune=true")
    for row in ROWS:
        run = fedsam.root / f"results/preview/runs/fedsam-cifar10/{SPLIT}/{row}/seed1/run.json"
        assert json.loads(run.read_text())["description"]["learning_rate"] == rates[row]
    text = (fedsam.root / f"results/preview/tables/{TABLE}.md").read_text()
    assert "Tuned on a validation part (10 % of every client's training images, seed 1; " in text
    assert f"FedAvg {rates['fedavg']:.4g}" in text and "Untuned" not in text, done.text
    assert fedsam.planned("--config", "tune=true") == {}

    fedsam.edit("config/protocols/fedsam-cifar10.yaml", ("seed: 1\n", "seed: 2\n"))
    done = fedsam.snakemake("--config", "tune=true")
    assert done.returncode != 0 and "Execute" not in done.text
    assert "was chosen with seed 1, but the configuration has 2; rerun: " in done.text
    assert fedsam.planned("tuning")["choose"] == {f"{TUNING}/{row}/choice.json" for row in ROWS}
