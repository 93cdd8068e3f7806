"""``flatfed rerun``: run.json is enough to make a run again, and says so where the metrics are not the same."""

import pytest
from project import SPLIT

from made import recorded

RUN = f"results/preview/runs/fedsmoo-cifar10/{SPLIT}/fedsmoo/seed1"
CODE = {"code_digest": "0" * 64}


def test_a_run_is_made_again_from_its_record(project):
    done = project.flatfed("rerun", f"{RUN}/run.json", "--out", "again")
    assert done.returncode == 0, done.text
    assert "all 2 lines are those of" in done.text and "digit for digit" in done.text
    models = [(project.root / folder / "model.safetensors").read_bytes() for folder in (RUN, "again")]
    assert models[0] == models[1]


def test_other_metrics_are_found(project):
    metrics = project.root / RUN / "metrics.csv"
    lines = metrics.read_text().splitlines()
    lines[2] = lines[2].replace(lines[2].split(",")[3], "9.75")
    metrics.write_text("\n".join(lines) + "\n")
    recorded(project.root / RUN, lambda record: (record["versions"].update(torch="0.4.0"), record.update(CODE)))
    done = project.flatfed("rerun", f"{RUN}/run.json", "--out", "again")
    assert done.returncode == 1 and "from round 2 on; test accuracy" in done.text
    assert "the run was made with 0.4.0" in done.text and "the code is another one" in done.text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda record: record.update(dataset_digest="0" * 64), "resources/digits: not the data set that the run"),
        (lambda record: record.update(partition_digest="0" * 64), "not the partition of"),
        (lambda record: record["description"]["dataset"].update(name="digitz"), "snakemake --cores 1 resources/digitz"),
        (lambda record: record.pop("executor"), "(key 'executor' is missing; there are: "),
    ],
)
def test_what_cannot_be_the_same_run_is_refused(project, change, words):
    recorded(project.root / RUN, change)
    done = project.flatfed("rerun", f"{RUN}/run.json", "--out", "again")
    assert done.returncode == 2 and words in done.text and "Traceback" not in done.text
    assert not (project.root / "again/run.json").exists()
