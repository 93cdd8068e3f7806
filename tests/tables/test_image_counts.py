"""Tables and figures say how many images were read, from dataset.json; declared numbers are held against the data."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flatfed import plan
from flatfed.data import dataset as datasets
from flatfed.data import manifest as manifests
from flatfed.data import sources
from flatfed.errors import ConfigError, DataError
from flatfed.plan import run_specs, set_ups
from flatfed.runs.paths import Paths
from flatfed.tables.image_counts import doubts, with_counts
from repository import ROOT
from shipped import EXP

ASKED = {"scale": "preview", "tables": ["cifar10_cnn"], "figures": []}


def images(path: Path, train: int, test: int) -> dict:
    """Write ``path`` with random images of CIFAR-10's shape; return it as a source."""
    rng = np.random.default_rng(0)
    parts = {"train": train, "test": test}
    arrays = {f"{part}_images": rng.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8) for part, n in parts.items()}
    np.savez(path, **arrays, **{f"{part}_labels": np.arange(n) % 10 for part, n in parts.items()})
    return {"source": "npz", "path": str(path)}


def loaded(tmp_path: Path, source: dict, **more) -> plan.Experiment:
    return plan.load(
        ROOT, {**ASKED, "data": {"cifar10": source}, **more}, paths=Paths(resources=str(tmp_path / "resources"))
    )


def fetched(exp: plan.Experiment, name: str) -> dict:
    """Fetch a data set as Snakemake does; return its dataset.json."""
    folder = Path(exp.paths.dataset(name))
    sources.fetch(run_specs.dataset_spec(exp.catalog, name).as_written(), folder)
    return json.loads((folder / "dataset.json").read_text())


@pytest.mark.parametrize(
    "name", [name for name, source in EXP.catalog.sources.items() if source.source == "sklearn"]
)
def test_embedded_data_are_as_many_as_declared(name: str, tmp_path: Path) -> None:
    declared = EXP.catalog.datasets[name]
    sources.fetch(run_specs.dataset_spec(EXP.catalog, name).as_written(), tmp_path)
    found = datasets.load(tmp_path)
    assert (found.train, found.test) == (declared.train, declared.test)


def test_other_numbers_than_declared_are_refused_and_what_stands_there_stays(tmp_path: Path) -> None:
    source = images(tmp_path / "part.npz", 60, 20)
    meant = loaded(tmp_path, {**source, "images": {"train": 60, "test": 20}})
    before = fetched(meant, "cifar10")
    with pytest.raises(DataError) as error:
        fetched(loaded(tmp_path, source), "cifar10")
    for words in (
        f"dataset 'cifar10': {source['path']} holds 60 training and 20 test images",
        "`train: 50000`, `test: 10000` is declared (config/datasets.yaml: cifar10, or `images`",
    ):
        assert words in str(error.value)
    said = str(error.value).partition("--config 'data=")[2].removesuffix("'")
    assert json.loads(said) == {"cifar10": {**source, "images": {"train": 60, "test": 20}}}
    assert fetched(loaded(tmp_path, json.loads(said)["cifar10"]), "cifar10") == before
    assert before["source"] == {"source": "npz"}, "neither on how many were expected nor on where they lie"


def test_a_declared_subset_counts_wherever_images_are_counted(tmp_path: Path) -> None:
    source = images(tmp_path / "part.npz", 600, 20)
    part = loaded(tmp_path, {**source, "images": {"train": 600, "test": 20}})
    ids = ("paper", "fedsmoo-cifar10", "central-dir0.6-100", "centralised_sgd", 1)
    steps = [run_specs.run(exp, *ids).config.local_steps for exp in (EXP, part)]
    assert steps == [10 * 5 * 10, 10 * 5 * 1], "of 10 clients, 5 epochs of 500 or 6 images in batches of 50"
    with pytest.raises(ConfigError, match=r"clients: 100 is not allowed; .*; at most 60 images of .*cifar10"):
        few = loaded(tmp_path, {**source, "images": {"train": 60, "test": 20}})
        assert run_specs.run(few, "preview", *IDS) == run_specs.run(EXP, "preview", *IDS), (
            "a part need only do for what is asked for"
        )
        run_specs.run(few, "paper", *IDS)


IDS = ("fedsmoo-cifar10", "dir0.6-100", "fedavg", 1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"train": 60}, "data.cifar10.images: key 'test' is missing"),
        ({"train": 0, "test": 1}, "data.cifar10.images.train: 0 is not allowed; expected at least 1"),
        ({"train": 1, "test": 1, "tset": 1}, "'tset'"),
        (60, "images"),
    ],
)
def test_a_wrong_subset_is_named(tmp_path: Path, given, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        loaded(tmp_path, {**images(tmp_path / "part.npz", 10, 10), "images": given}).check()
    assert "config/config.yaml or --config" in str(error.value) and said in str(error.value)


def test_the_entry_of_a_dataset_has_its_numbers_itself(tmp_path: Path) -> None:
    import shutil

    shutil.copytree(ROOT / "config", tmp_path / "config")
    path = tmp_path / "config/datasets.yaml"
    new = "source: {source: torchvision, dataset: CIFAR10, images: {train: 1, test: 1}}"
    path.write_text(path.read_text().replace("source: {source: torchvision, dataset: CIFAR10}", new))
    with pytest.raises(ConfigError, match=r"datasets.yaml: cifar10.source.images: .* it is for `data` of config"):
        plan.load(tmp_path).check()


def line(exp: plan.Experiment, scale: str, protocol: str = "fedsmoo-cifar10") -> str:
    """Return what a table of one set-up says was trained."""
    pairs = [(protocol, "dir0.6-100")]
    setting = with_counts(set_ups.setting(exp.catalog, scale, pairs), set_ups.datasets(exp, scale, pairs))
    return setting.partition(", 100 clients")[0].partition(", 30 clients")[0]


def test_what_was_read_is_said(tmp_path: Path) -> None:
    part = {**images(tmp_path / "part.npz", 600, 20), "images": {"train": 600, "test": 20}}
    here = loaded(tmp_path, part)
    absent = "declared; they are not on this machine"
    assert line(here, "paper") == f"CIFAR-10 (620 images of 32x32 {absent})"
    fetched(here, "cifar10")
    assert line(here, "paper") == "CIFAR-10 (620 of 60,000 images of 32x32)"
    assert line(loaded(tmp_path, {"source": "torchvision", "dataset": "CIFAR10"}), "paper") == (
        "CIFAR-10 (620 of 60,000 images of 32x32)"
    ), "what lies there is what is counted, whatever is declared by now"
    fetched(here, "digits")
    assert line(here, "preview") == "digits (1,797 images of 8x8)"


def test_where_the_data_are_not_the_records_of_the_runs_count_them(tmp_path: Path) -> None:
    here = loaded(tmp_path, {"source": "torchvision", "dataset": "CIFAR10"})
    pairs = [("fedsmoo-cifar10", "dir0.6-100")]
    spec = "{cifar10}", set_ups.datasets(here, "paper", pairs)
    whole, part = ({"cifar10": {"train": train, "test": 100}} for train in (59_900, 500))
    other = {"digits": {"train": 1, "test": 1}}
    assert with_counts(*spec, [other, whole, whole]) == "(60,000 images of 32x32)"
    assert with_counts(*spec, [part, {}]) == "(600 of 60,000 images of 32x32)"
    assert with_counts(*spec, [part, whole]) == "(600 or 60,000 of 60,000 images of 32x32)"
    assert "declared; they are not on this machine" in with_counts(*spec, [other])
    fetched(loaded(tmp_path, {**images(tmp_path / "f.npz", 60, 20), "images": {"train": 60, "test": 20}}), "cifar10")
    assert with_counts(*spec, [whole]) == "(60,000 images of 32x32)", "as many as the runs were made from"
    assert with_counts(*spec, [other]) == "(80 of 60,000 images of 32x32)", "as many as are here"
    uncounted = {"cifar10": replace(spec[1]["cifar10"], manifest=None)}
    assert with_counts("{cifar10}", uncounted) == (
        "(60,000 images of 32x32 declared; the records of the runs do not count them)"
    )


def test_doubts_about_images_go_with_torchvisions_archive(tmp_path: Path) -> None:
    here = loaded(tmp_path, {"source": "torchvision", "dataset": "CIFAR10"})
    specs = set_ups.datasets(here, "paper", [("fedsmoo-cifar10", "dir0.6-100")])
    path, (known,) = Path(here.paths.manifest("cifar10")), manifests.DIGESTS["cifar10"]
    about = {"name": "cifar10", "classes": 10, "shape": [3, 32, 32], "train": 50000, "test": 10000, "domains": None}

    def notes(*digests: str) -> list[str]:
        return doubts(specs, [{"cifar10": list(digests)}, {"cifar10": list(digests), "mine": ["3" * 64]}])

    assert notes(known) == [] and len(notes("1" * 64, known, "2" * 64)) == 2, "one for each, and nothing is fetched yet"
    for source, expected in (("npz", ["1", "2"]), ("torchvision", ["2"])):
        content = manifests.Manifest(**about, source={"source": source}, digest="1" * 64, bytes=0)
        manifests.write(path, content)
        found = notes("1" * 64, "2" * 64)
        assert len(found) == len(expected)
        assert all(f"their digest {digit * 12} is unknown" in note for digit, note in zip(expected, found, strict=True))
    path.write_text("{")
    assert len(notes("1" * 64)) == 1


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    here = loaded(tmp_path, {"source": "torchvision", "dataset": "CIFAR10"})
    manifest = Path(here.paths.manifest("cifar10"))
    manifest.parent.mkdir(parents=True)
    for text in (
        "{",
        "[]",
        "{}",
        '{"train": 1, "test": "x", "shape": [3, 32, 32]}',
        '{"train": 1, "test": 1, "shape": 3}',
    ):
        manifest.write_text(text)
        with pytest.raises(DataError, match=r"resources/cifar10/dataset\.json: not that of a dataset"):
            line(here, "paper")
