"""``flatfed rerun``: run.json is enough to make a run again, and says so where the metrics are not the same."""

import sys

import numpy as np
import pytest
from project import REPOSITORY, RUNS

from made import recorded
from samples import full

RUN = f"{RUNS}/fedsmoo/seed1"


@full
def test_a_run_is_made_again_from_its_record_and_other_metrics_are_found(project):
    done = project.flatfed("rerun", RUN, "--out", "again")
    assert done.returncode == 0, done.text
    assert "all 2 lines are those of" in done.text and "digit for digit" in done.text
    models = [(project.root / folder / "model.safetensors").read_bytes() for folder in (RUN, "again")]
    assert models[0] == models[1]

    def older(record):
        record["libraries"]["torch"], record["versions"]["engine"] = "0.4.0", 0

    metrics = project.root / RUN / "metrics.csv"
    lines = metrics.read_text().splitlines()
    lines[2] = lines[2].replace(lines[2].split(",")[3], "9.75")
    metrics.write_text("\n".join(lines) + "\n")
    recorded(project.root / RUN, older)
    done = project.flatfed("rerun", RUN, "--out", "third")
    assert done.returncode == 1 and "from round 2 on, there in test_loss" in done.text
    assert "the run was made with 0.4.0" in done.text and "versions.engine is 1" in done.text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda record: record.update(dataset_digest="0" * 64), "resources/digits: is not the dataset of the run"),
        (lambda record: record["description"]["dataset"].update(name="digitz"), "snakemake --cores 1 resources/digitz"),
    ],
)
def test_what_cannot_be_the_same_run_is_refused(project, call, monkeypatch, change, words):
    monkeypatch.chdir(project.root)
    recorded(project.root / RUN, change)
    status, _, message = call("rerun", RUN, "--out", "again")
    assert status == 2 and words in message and not (project.root / "again/run.json").exists()


@full
def test_images_of_another_source_are_put_into_the_order_of_the_run(project):
    """What somebody does who has the images of published runs in another order."""
    manifest = project.root / "resources/digits/dataset.json"
    before = manifest.read_text()
    study = [sys.executable, REPOSITORY / "studies/order.py", "resources/digits", "--out", "order.npz"]
    assert project.call(*study, env={"PYTHONPATH": str(project.root / "src")}).returncode == 0
    images, labels = (np.load(project.root / f"resources/digits/{name}.npy") for name in ("images", "labels"))
    generator, train = np.random.default_rng(3), len(labels) - 500
    places = {"train": generator.permutation(train), "test": train + generator.permutation(500)}
    arrays = {f"{part}_images": images[kept, 0] for part, kept in places.items()}
    np.savez(project.root / "digits.npz", **arrays, **{f"{part}_labels": labels[kept] for part, kept in places.items()})
    fetched = ("--", "resources/digits/dataset.json")
    ordered = "data={digits: {source: npz, path: digits.npz, order: order.npz}}"
    project.make("--config", ordered, *fetched)
    digest = '"digest": "'
    assert manifest.read_text().split(digest)[1][:64] == before.split(digest)[1][:64]
    done = project.flatfed("rerun", RUN, "--out", "again")
    assert done.returncode == 0 and "digit for digit" in done.text
    assert project.planned("--config", ordered, *fetched) == {}
    (project.root / "order.npz").write_bytes((project.root / "order.npz").read_bytes() + bytes(1))
    assert project.planned("--config", ordered, *fetched) == {"fetch": {"resources/digits"}}, "another file of an order"
