"""What papers tuned: choices first, by one target; then runs that take them."""

import json

from project import Project, jobs_of

TABLE, SPLIT, ROW = "fedsam2022_T1", "dir0.6-100-p20", "fedsam"
TUNING = f"results/preview/tuning/fedsam-cifar10/{SPLIT}/{ROW}"
RUN = f"results/preview/runs/fedsam-cifar10/{SPLIT}/{ROW}/seed1"
MADE = f"results/preview/tables/{TABLE}.md"
TUNED = ("--config", "tune=true", "--", MADE)


def test_choices_are_made_then_taken_then_refused_when_stale(tmp_path):
    """One column of FedSAM's Table 1, one of its rows, two rounds."""
    project = Project.copied(tmp_path)
    asked = {"table": TABLE, "columns": [f"cifar10-{SPLIT}.client_test_accuracy"]}
    project.edit_yaml("config/config.yaml", lambda config: config.update(tables=[asked], figures=[]))
    project.edit_yaml(f"config/tables/{TABLE}.yaml", lambda table: table.update(rows=[ROW]))
    project.edit_yaml("config/protocols/fedsam-cifar10.yaml", lambda protocol: protocol["preview"].update(rounds=2))
    text = project.refused(*TUNED)
    assert f"{TUNING}/choice.json, which does not exist yet" in text and "Execute" not in text
    assert "make it: snakemake --cores all --config scale=preview -- " in text

    assert jobs_of(project.make("--printshellcmds", "tuning").text) == {
        "fetch": {"resources/digits"},
        "partition": {f"results/preview/partitions/fedsam-cifar10/{SPLIT}/seed1.npz"},
        "train": {f"{TUNING}/learning_rate={rate}" for rate in ("0.316228", "0.1", "0.0316228")},
        "choose": {f"{TUNING}/choice.json"},
    }
    choice = json.loads((project.root / TUNING / "choice.json").read_text())
    scores = {point["values"]["learning_rate"]: point["accuracy"] for point in choice["points"]}
    rate = max(scores, key=scores.get)
    assert choice["chosen"] == {"learning_rate": rate} and len(scores) == 3
    assert not list((project.root / TUNING).rglob("*.safetensors")), "models of tuning runs are not kept"
    assert project.planned(MADE)["train"] == {RUN}, "ordinary runs need no choice"

    project.make(*TUNED)
    assert json.loads((project.root / RUN / "run.json").read_text())["description"]["learning_rate"] == rate
    text = (project.root / MADE).read_text()
    assert "Tuned on a validation part (10 % of every client's training images, seed 1; " in text
    assert f"FedSAM {rate:.4g}" in text and "Untuned" not in text
    assert project.planned(*TUNED) == {}

    project.edit("config/protocols/fedsam-cifar10.yaml", ("seed: 1\n", "seed: 2\n"))
    text = project.refused(*TUNED)
    assert "was chosen with seed 1, but the configuration has 2; rerun: " in text and "Execute" not in text
    assert project.planned("tuning")["choose"] == {f"{TUNING}/choice.json"}
