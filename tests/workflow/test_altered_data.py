"""A data set that was altered after it was fetched stops what would train on it; made again, everything goes on."""

import json
import os
import re
import shutil

import numpy as np
import pytest
from PIL import Image
from project import REPOSITORY, ROWS, SPLIT, Project

from samples import sampled

RUNS = f"results/preview/runs/fedsmoo-cifar10/{SPLIT}"
DATA = "resources/digits"


def test_no_run_is_trained_on_it_and_what_is_done_stays(project):
    wanted = f"{RUNS}/fedavg/seed2/run.json"
    before = {path: path.read_bytes() for path in (project.root / RUNS).rglob("seed1/*")}
    digest = (project.root / DATA / "dataset.json").read_text()
    images = project.root / DATA / "images.npy"
    content = bytearray(images.read_bytes())
    content[-1] ^= 1
    images.write_bytes(content)
    refusal = project.refused(wanted)
    assert f"{DATA}: " in refusal and "delete the folder to fetch it again" in refusal
    assert not (project.root / wanted).exists()
    shutil.rmtree(project.root / DATA)
    project.make(wanted)
    assert (project.root / DATA / "dataset.json").read_text() == digest
    assert {path: path.read_bytes() for path in before} == before and len(before) == 3 * len(ROWS)
    assert project.planned() == {}, "what was trained before on the same data is as good as ever"


def archive(file, value=0, **more):
    """Write images of one ``value`` in the numbers of digits."""
    arrays = dict(more)
    for part, count in {"train": 1297, "test": 500}.items():
        arrays[f"{part}_images"] = np.full((count, 8, 8), value, dtype=np.uint8)
        arrays[f"{part}_labels"] = np.arange(count) % 10
    np.savez(file, **arrays)
    return ["--config", f"data={{digits: {{source: npz, path: {file}}}}}"]


def test_a_data_file_replaced_by_an_older_one_is_read_again(tmp_path):
    """As `mv` and `rsync -a` replace it: as many images, an older time."""
    project = Project.copied(tmp_path)
    file, wanted, digests = tmp_path / "data.npz", f"{DATA}/dataset.json", []
    for value, seconds in ((1, 1_000_000_000), (2, 900_000_000)):
        config = archive(file, value)
        os.utime(file, (seconds, seconds))
        project.make(wanted, *config)
        digests.append(json.loads((project.root / wanted).read_text())["digest"])
    assert digests[0] != digests[1]


def own_archive(project):
    """Write an archive; return it and the arguments of a call that reads it."""
    file = project.root / "data.npz"
    # Snakemake compares the contents of small inputs itself.
    config = archive(file, padding=np.zeros(2_000_000, dtype=np.uint8))
    return file, [f"results/preview/partitions/fedsmoo-cifar10/{SPLIT}/seed1.npz", *config]


def own_photos(project):
    """Write the photos of docs/your-own-data.md; return one of them and the arguments of a call that reads it."""
    for number, name in enumerate(("train/fox", "train/owl", "test/fox", "test/owl")):
        folder = project.root / "photos" / name
        folder.mkdir(parents=True)
        for image in range(20):
            Image.new("RGB", (9, 9), (number, image, 0)).save(folder / f"{image}.png")
    text = (REPOSITORY / "docs/your-own-data.md").read_text()
    (project.root / "config/tables/photos.yaml").write_text(re.search(r"```yaml\n(.*?)```", text, re.DOTALL)[1])
    return project.root / "photos/train/owl/3.png", ["results/paper/partitions/photos/skewed/seed1.npz"]


@pytest.mark.parametrize("own", sampled([own_archive, own_photos], [own_archive]))
def test_a_touched_file_reruns_nothing_and_a_changed_one_does(tmp_path, own):
    """Without Snakemake's records, times decide about an archive. Of photos, a digest decides."""
    project = Project.copied(tmp_path)
    file, arguments = own(project)
    content, again = file.read_bytes(), {"fetch", "partition"}
    project.make(*arguments)
    file.touch()
    assert project.planned(*arguments) == {}
    file.write_bytes(content + b" ")
    assert set(project.planned(*arguments)) == again
    file.write_bytes(content)
    assert project.planned(*arguments) == {}, "as it was"
    shutil.rmtree(project.root / ".snakemake")
    file.touch()
    assert set(project.planned(*arguments)) == (again if own is own_archive else set())
