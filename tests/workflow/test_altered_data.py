"""A data set that was altered after it was fetched stops what would train on it; made again, everything goes on."""

import os
import shutil

import numpy as np
import pytest
from project import RUNS, SPLIT, Project, contents, write_photos

from samples import full, sampled

DATA = "resources/digits"


@full
def test_no_run_is_trained_on_it_and_what_is_done_stays(project):
    wanted, digest = f"{RUNS}/fedavg/seed2/run.json", (project.root / DATA / "dataset.json").read_text()
    before = contents(project.root / RUNS)
    images = project.root / DATA / "images.npy"
    content = bytearray(images.read_bytes())
    content[-1] ^= 1
    images.write_bytes(content)
    refusal = project.refused(wanted)
    assert f"{DATA}: " in refusal and "delete the folder to fetch it again" in refusal
    shutil.rmtree(project.root / DATA)
    project.make(f"{DATA}/dataset.json")
    assert (project.root / DATA / "dataset.json").read_text() == digest
    assert contents(project.root / RUNS) == before
    assert project.planned() == {}, "what was trained before on the same data is as good as ever"


def own_archive(project):
    """Write images in the numbers of digits; return the archive and the arguments of a call that reads it."""
    # Snakemake compares the contents of small inputs itself.
    arrays = {"padding": np.zeros(2_000_000, dtype=np.uint8)}
    for part, count in {"train": 1297, "test": 500}.items():
        arrays[f"{part}_images"] = np.zeros((count, 8, 8), dtype=np.uint8)
        arrays[f"{part}_labels"] = np.arange(count) % 10
    file = project.root / "data.npz"
    np.savez(file, **arrays)
    config = ["--config", f"data={{digits: {{source: npz, path: {file}}}}}"]
    return file, [f"results/preview/partitions/fedsmoo-cifar10/{SPLIT}/seed1.npz", *config]


def own_photos(project):
    """Write photos and their file of tables; return a photo and the arguments of a call that reads it."""
    write_photos(project.root, project.root / "config/tables/photos.yaml")
    return project.root / "photos/train/owl/3.png", ["results/paper/partitions/photos/skewed/seed1.npz"]


@full
def test_a_complete_data_set_stays_if_a_later_call_leaves_its_source_out(tmp_path):
    """A call that names the source again plans nothing, either."""
    project = Project.copied(tmp_path)
    _, arguments = own_archive(project)
    project.make(*arguments)
    partition, manifest = arguments[:1], project.root / DATA / "dataset.json"
    before = manifest.read_text()
    assert project.planned(*partition) == {}
    project.make(*partition)
    assert manifest.read_text() == before
    assert project.planned(*arguments) == {}
    (project.root / DATA / "labels.npy").unlink()
    assert project.planned(*partition)["fetch"] == {DATA}, "it is not complete"


@full
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
    os.utime(file, (1_000_000_000, 1_000_000_000))  # an older file, as `mv` and `rsync -a` leave it
    assert set(project.planned(*arguments)) == again
    file.write_bytes(content)
    assert project.planned(*arguments) == {}, "as it was"
    shutil.rmtree(project.root / ".snakemake")
    file.touch()
    assert set(project.planned(*arguments)) == (again if own is own_archive else set())
