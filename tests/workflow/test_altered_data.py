"""A data set that was altered after it was fetched stops what would train on it; made again, everything goes on."""

import json
import os
import re
import shutil

import numpy as np
import pytest
from PIL import Image
from project import REPOSITORY, ROWS, SPLIT, Project

from samples import full

RUNS = "results/preview/runs/fedsmoo-cifar10/dir0.6-100"
DATA = "resources/digits"


def flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize(("damage", "file"), [(flip, "images.npy"), pytest.param(cut, "labels.npy", marks=full)])
def test_no_run_is_trained_on_it_and_what_is_done_stays(project, damage, file):
    wanted = f"{RUNS}/fedavg/seed2/run.json"
    before = {path: path.read_bytes() for path in (project.root / RUNS).rglob("seed1/*")}
    digest = (project.root / DATA / "dataset.json").read_text()
    damage(project.root / DATA / file)
    done = project.snakemake(wanted)
    assert done.returncode != 0 and "Traceback" not in done.text
    assert f"{DATA}: " in done.text and "delete the folder to fetch it again" in done.text
    assert not (project.root / wanted).exists()
    shutil.rmtree(project.root / DATA)
    project.make(wanted)
    assert (project.root / DATA / "dataset.json").read_text() == digest
    assert {path: path.read_bytes() for path in before} == before and len(before) == 3 * len(ROWS)
    assert project.planned() == {}, "what was trained before on the same data is as good as ever"


def test_a_data_file_replaced_by_an_older_one_is_read_again(tmp_path):
    """As `mv` and `rsync -a` replace it: as many images, an older time."""
    project = Project.copied(tmp_path)
    file, wanted = tmp_path / "data.npz", f"{DATA}/dataset.json"
    asked = [wanted, "--config", f"data={{digits: {{source: npz, path: {file}}}}}"]

    def replaced(value, seconds):
        parts = {"train": 1297, "test": 500}
        images = {f"{part}_images": np.full((count, 8, 8), value, dtype=np.uint8) for part, count in parts.items()}
        np.savez(file, **images, **{f"{part}_labels": np.arange(count) % 10 for part, count in parts.items()})
        os.utime(file, (seconds, seconds))

    replaced(1, 1_000_000_000)
    project.make(*asked)
    digest = json.loads((project.root / wanted).read_text())["digest"]
    assert project.planned(*asked) == {}
    replaced(2, 900_000_000)
    project.make(*asked)
    assert json.loads((project.root / wanted).read_text())["digest"] != digest


@pytest.fixture(params=["npz", "photos"])
def own(tmp_path, request):
    """Return (project, file, arguments): data of one's own, fetched and partitioned, and one of their files."""
    project = Project.copied(tmp_path)
    if request.param == "npz":
        file, count = tmp_path / "data.npz", {"train": 1297, "test": 500}
        images = {f"{part}_images": np.zeros((number, 8, 8), dtype=np.uint8) for part, number in count.items()}
        labels = {f"{part}_labels": np.arange(number) % 10 for part, number in count.items()}
        # Snakemake compares the contents of small inputs itself.
        np.savez(file, **images, **labels, padding=np.zeros(2_000_000, dtype=np.uint8))
        run, config = f"fedsmoo-cifar10/{SPLIT}", ["--config", f"data={{digits: {{source: npz, path: {file}}}}}"]
        arguments = [f"results/preview/partitions/{run}/seed1.npz", *config]
    else:
        for number, place in enumerate(f"{part}/{name}" for part in ("train", "test") for name in ("fox", "owl")):
            folder = tmp_path / "photos" / place
            folder.mkdir(parents=True)
            for image in range(20):
                Image.new("RGB", (9, 9), (number, image, 0)).save(folder / f"{image}.png")
        text = (REPOSITORY / "docs/your-own-data.md").read_text()
        (tmp_path / "config/tables/photos.yaml").write_text(re.search(r"```yaml\n(.*?)```", text, re.DOTALL)[1])
        file = tmp_path / "photos/train/owl/3.png"
        arguments = ["results/paper/partitions/photos/skewed/seed1.npz"]
    project.make(*arguments)
    return project, file, arguments


def test_a_touched_file_reruns_nothing_and_a_changed_one_does(own):
    project, file, arguments = own
    content = file.read_bytes()
    assert project.planned(*arguments) == {}
    for _ in range(2):
        file.touch()
        assert project.planned(*arguments) == {}, "as often as it is touched"
    with file.open("ab") as changed:
        changed.write(b" ")
    assert set(project.planned(*arguments)) == {"fetch", "partition"}
    file.write_bytes(content)
    assert project.planned(*arguments) == {}, "as it was"


def test_without_snakemakes_records_a_newer_file_is_fetched(own):
    project, file, arguments = own
    shutil.rmtree(project.root / ".snakemake")
    file.touch()
    assert set(project.planned(*arguments)) == ({"fetch", "partition"} if file.suffix == ".npz" else set())
