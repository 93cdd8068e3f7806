"""A data set is fetched again if its file changed, and stays if a later call leaves its source out."""

import os
import shutil

import numpy as np
from project import SPLIT, Project

from samples import full

DATA = "resources/digits"


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
def test_a_touched_file_reruns_nothing_and_a_changed_one_does(tmp_path):
    """Without Snakemake's records, times decide. tests/plan/test_data_sources.py has the rule."""
    project = Project.copied(tmp_path)
    file, arguments = own_archive(project)
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
    assert set(project.planned(*arguments)) == again
