"""Images on disk: they are counted as they are read, compared with what is declared, and changes are noticed."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from flatfed import cli, plan
from flatfed.config.datasets import SOURCE
from flatfed.data import sources
from flatfed.errors import ConfigError, DataError
from flatfed.plan import data_sources
from own_files import load, put, refusal

PHOTOS = {"source": "imagefolder", "path": "photos", "size": 32}
ARCHIVE = {"source": "npz", "path": "data.npz"}


pytestmark = pytest.mark.usefixtures("here")


def spec(change=None, **config):
    """Return the specification of dataset ``photos``."""
    return load(change=change, **config).catalog.dataset_spec("photos")


def read(specification):
    """Read the dataset into folder ``read``; return its labels."""
    sources.fetch(specification.as_written(), Path("read"))
    return np.load("read/labels.npy").tolist()


def test_counts_are_those_that_are_read(here):
    counted = spec()
    assert (counted.train, counted.test) == (12, 6)
    assert read(counted) == [0] * 5 + [1] * 4 + [2] * 3 + [0, 0, 1, 1, 2, 2]
    (here / "photos").rename(here / "elsewhere")
    assert spec(data={"photos": {**PHOTOS, "path": str(here / "elsewhere")}}).train == 12, "as on this machine"


def test_domains_are_counted_as_they_are_read():
    Path("photos").rename("sites")
    source = {**PHOTOS, "path": "sites", "domains": True}
    counted = spec(put("datasets", "photos", value={"domains": ["train", "test"], "source": source}))
    assert (counted.train, counted.test, counted.classes) == (15, 3, 3)  # a fifth of 12 is 2, of 6 is 1
    assert len(read(counted)) == 18


@pytest.mark.parametrize(("shape", "expected"), [((7, 10, 12), [1, 10, 12]), ((7, 10, 12, 3), [3, 10, 12])])
def test_an_archive_is_counted(shape, expected):
    images, labels = np.zeros(shape, "uint8"), np.array([0, 1, 2, 3, 0, 1, 2])
    arrays = {"train_images": images, "train_labels": labels[:, None]}
    np.savez("data.npz", **arrays, test_images=images[:2], test_labels=labels[:2])

    def change(content):
        content["datasets"]["photos"] = {"source": ARCHIVE}
        content["splits"]["skewed"]["clients"] = 3

    counted = spec(change)
    assert (counted.train, counted.test, counted.classes, counted.shape) == (7, 2, 4, expected)
    assert len(read(counted)) == 9


def test_declared_numbers_need_no_images():
    """The job that reads the images compares."""
    for key, value, words in (("shape", [3, 28, 28], "have shape"), ("classes", 5, "3 class folders")):
        with pytest.raises(DataError, match=words):
            read(spec(put("datasets", "photos", key, value=value)))
    Path("photos").rename("elsewhere")
    message = refusal()
    for words in ("own/photos.yaml: datasets.photos", "'photos' does not exist", "declare classes, shape, train, test"):
        assert words in message
    whole = {"classes": 3, "shape": [3, 32, 32], "train": 12, "test": 6, "source": PHOTOS}
    assert spec(put("datasets", "photos", value=whole)).test == 6


def test_a_folder_without_images_is_refused():
    for path in Path("photos/train/b").glob("*.png"):
        path.unlink()
    message = refusal()
    assert "own/photos.yaml: datasets.photos" in message and "train/b holds no image" in message


@pytest.mark.parametrize("source", [ARCHIVE, PHOTOS], ids=["npz", "imagefolder"])
def test_contents_decide_whether_data_changed(here, monkeypatch, source):
    """A file whose size or time changed is hashed again, the others are not."""
    np.savez("data.npz", train_images=np.zeros((4, 2, 2), dtype=np.uint8))
    file = Path("data.npz" if source is ARCHIVE else "photos/train/a/4.png")
    content, cache, hashed, source = file.read_bytes(), here / "cache/photos.json", [], SOURCE.check(source, "source")
    digest = data_sources.digest_file
    monkeypatch.setattr(data_sources, "digest_file", lambda path: hashed.append(Path(path)) or digest(path))

    def listed(content, seconds):
        file.write_bytes(content)
        os.utime(file, (seconds, seconds))
        hashed.clear()
        return data_sources.listings(source, cache)

    first, present = listed(content, 1000)
    assert first == present, "as without a cache"
    assert listed(content, 1000) == (first, first) and hashed == []
    seen, present = listed(content, 2000)
    assert seen == first != present
    assert [path.resolve() for path in hashed] == [file.resolve()]
    changed, present = listed(content + b"x", 2000)
    assert changed == present != first
    assert listed(content + b"x", 3000)[0] == changed and listed(content, 4000)[0] == first
    monkeypatch.setattr(data_sources, "HASHED", 10)
    seen, present = listed(content, 5000)
    assert seen == present and hashed == []
    cache.write_text("{")
    for path in (cache, Path("/proc/no/photos.json")):
        assert data_sources.listings(source, path) == (present, present), "as without a cache"


def test_check_counts_files_that_are_not_read_and_compares_the_classes(here, capsys):
    Path("photos/train/a/more").mkdir()
    Path("photos/train/a/more/1.png").touch()
    load()
    asked = ["scale=paper", "tables=[photos]", "figures=[]", "folders=[own]"]
    assert cli.main(["check", "--config", *asked]) == 0
    expected = [f".txt in {part}/{name}" for part in ("test", "train") for name in "abc"]
    expected.insert(4, ".png in train/a/more")
    text = ", ".join(f"1 {kind}" for kind in expected)
    assert f"warning: dataset 'photos': not read: {text}\n" in capsys.readouterr().out
    load(change=put("datasets", "photos", "classes", value=4))
    assert cli.main(["check", "--config", *asked]) == 2
    assert "photos has 3 classes, but `classes: 4` is declared" in capsys.readouterr().err


def test_a_path_begins_in_the_project_of_its_file(here, small_config, monkeypatch):
    (here / "elsewhere").mkdir()
    load()
    monkeypatch.chdir(here / "elsewhere")
    config = {"scale": "paper", "tables": ["photos"], "figures": [], "folders": ["../own"]}
    loaded = plan.load(small_config, config)
    assert loaded.catalog.dataset_spec("photos").source.path == str(here / "photos")
    (here / "Snakefile").unlink()
    with pytest.raises(ConfigError, match=f"'{here}/own/photos' does not exist"):
        plan.load(small_config, config)
    (here / "photos").rename(here / "own/photos")
    assert plan.load(small_config, config).catalog.dataset_spec("photos").train == 12


def test_a_path_may_begin_at_home_and_is_not_taken_for_another_kind(here, monkeypatch):
    monkeypatch.setenv("HOME", str(here))
    np.savez("data.npz", train_images=np.zeros(1))
    catalog = load(data={"cifar10": {"source": "npz", "path": "~/data.npz"}}).catalog
    assert catalog.dataset_spec("cifar10").source.path == str(here / "data.npz")
    message = refusal(data={"cifar10": {"source": "npz", "path": "~/photos"}})
    assert "data.cifar10.path: '~/photos' is a folder" in message
