"""A data set that was altered after it was fetched stops what would train on it; made again, everything goes on."""

import json
import os
import shutil

import numpy as np
import pytest
from project import ROWS, Project

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
