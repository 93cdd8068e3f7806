"""``fetch`` and ``partition`` by hand: what is missing or wrong is one line with what to do; nothing is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flatfed import cli, experiment
from flatfed.data import keys, sources
from flatfed.data.schemes import SCHEMES
from flatfed.experiment import cell_specs, figure_specs, run_specs, scales

ROOT = Path(__file__).parents[2]
EXP = experiment.load(ROOT)
DIGITS = {"name": "digits", "classes": 10, "shape": [1, 8, 8], "source": {"source": "sklearn", "test": 500}}

#: Scheme -> a specification of it with nothing but what is needed.
DEALS = {
    "central": {},
    "iid": {"clients": 5},
    "dirichlet": {"clients": 5, "classes": 10, "alpha": 0.6},
    "pathological": {"clients": 5, "classes": 10, "classes_per_client": 2},
    "shards": {"clients": 50, "shards_per_client": 2, "assignment": "different_classes"},
    "domain": {"held_out": 0, "clients_per_domain": 2},
}
DEALS = {scheme: {"dataset": "digits", "scheme": scheme, "seed": 1, **more} for scheme, more in DEALS.items()}
LACKING = [(scheme, key) for scheme, spec in DEALS.items() for key in spec]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder that commands are called in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("resources") / "digits"
    sources.fetch(DIGITS, folder)
    return folder


def refused(capsys, *command: object) -> str:
    """Call a command, which must say one line and leave everything as it is; return the line."""
    before = sorted(path for path in Path().rglob("*"))
    try:
        assert cli.main([str(word) for word in command]) == 2
    except SystemExit as end:  # of a path that is of another kind, before anything is begun
        assert end.code == 2
        assert sorted(path for path in Path().rglob("*")) == before
        return capsys.readouterr().err.splitlines()[-1]
    out, said = capsys.readouterr()
    assert not out and said.count("\n") == 1 and said.startswith(f"flatfed {command[0]}: ")
    assert sorted(path for path in Path().rglob("*")) == before
    return said


def fetch(spec: dict, out: object = "out") -> tuple:
    return "fetch", "--spec", json.dumps(spec), "--out", out


def partition(spec: dict, dataset: object, out: object = "clients.npz") -> tuple:
    return "partition", "--spec", json.dumps(spec), "--dataset", dataset, "--out", out


def without(spec: dict, key: str) -> dict:
    return {name: value for name, value in spec.items() if name != key}


@pytest.mark.parametrize("key", DIGITS)
def test_a_dataset_that_lacks_a_key(here, capsys, key):
    said = refused(capsys, *fetch(without(DIGITS, key)))
    assert f"key '{key}' is missing; " in said and "`python -m flatfed fetch --help`" in said


@pytest.mark.parametrize(("kind", "key"), [(kind, key) for kind, (needed, _) in keys.SOURCES.items() for key in needed])
def test_a_source_that_lacks_a_key(here, capsys, kind, key):
    whole = {"sklearn": {"test": 500}, "torchvision": {"dataset": "CIFAR10"}, "npz": {"path": "x.npz"}}
    whole["imagefolder"] = {"path": "x", "size": 8}
    said = refused(capsys, *fetch({**DIGITS, "source": {"source": kind, **without(whole[kind], key)}}))
    assert f"dataset 'digits': source: key '{key}' is missing; " in said


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"classes": "ten"}, 'classes: "ten" is not a whole number'),
        ({"classes": 10.5}, "classes: 10.5 is not a whole number"),
        ({"classes": True}, "classes: true is not a whole number"),
        ({"shape": [8, 8]}, "shape: [8, 8] is not [channels, height, width]"),
        ({"shape": 8}, "shape: 8 is not [channels"),
        ({"name": 3}, "name: 3 is not a text"),
        ({"trian": 1297}, "unknown key 'trian'; did you mean 'train'?"),
        ({"domains": True}, "domains: true is not a list"),
        ({"domains": "plain"}, 'domains: "plain" is not true or false or a list'),
        ({"source": "npz"}, 'source: "npz" is not a mapping'),
        ({"source": {}}, "source: key 'source' is missing"),
        (
            {"source": {"source": "sklearn", "test": "500"}},
            'source.test: "500" is not a whole number',
        ),
        ({"source": {"source": "sklearn", "test": 500, "path": "x"}}, "source: unknown key 'path'; known: expand"),
        ({"source": {"source": ["sklearn"]}}, 'source: ["sklearn"] is not one of sklearn'),
        ({"train": 1300, "test": 500}, "its source gives 1297 training and 500 test images, but `train: 1300`"),
    ],
)
def test_a_dataset_with_a_wrong_value(here, capsys, change, words):
    assert words in refused(capsys, *fetch({**DIGITS, **change}))


@pytest.mark.parametrize(("scheme", "key"), LACKING)
def test_a_partition_that_lacks_a_key(here, capsys, digits, scheme, key):
    said = refused(capsys, *partition(without(DEALS[scheme], key), digits))
    assert f"key '{key}' is missing; " in said
    assert "`python -m flatfed partition --help`" in said


@pytest.mark.parametrize("scheme", [scheme for scheme in DEALS if scheme != "domain"])
def test_what_is_needed_is_enough(here, digits, scheme):
    assert cli.main([str(word) for word in partition(DEALS[scheme], digits)]) == 0
    assert Path("clients.npz").exists()


@pytest.mark.parametrize(
    ("scheme", "change", "words"),
    [
        ("dirichlet", {"alpha": "0.6"}, 'alpha: "0.6" is not a number above 0'),
        ("dirichlet", {"replcement": False}, "unknown key 'replcement'; did you mean 'replacement'?"),
        ("dirichlet", {"replacement": "no"}, 'replacement: "no" is not true or false'),
        ("iid", {"clients": "5"}, 'clients: "5" is not a whole number'),
        ("iid", {"clients": -5}, "clients: -5 is not a whole number from 1 up"),
        ("iid", {"seed": -1}, "seed: -1 is not a whole number below 4294967296"),
        ("iid", {"seed": 1 << 32}, "seed: 4294967296 is not a whole number below"),
        ("iid", {"scheme": "idd"}, "unknown scheme 'idd'; did you mean 'iid'?"),
        ("iid", {"scheme": ["iid"]}, 'scheme: ["iid"] is not one of'),
        ("shards", {"assignment": "different"}, "unknown assignment 'different'; did you mean 'different_classes'?"),
        ("pathological", {"classes": 11}, "holds 10 classes, but the partition is of 11"),
        ("domain", {}, "dataset 'digits' lists no `domains`"),
        ("iid", {"images_of": DEALS["shards"]}, "unknown key 'images_of'"),
        ("central", {"images_of": "iid"}, 'images_of: "iid" is not a mapping'),
        (
            "central",
            {"images_of": {"scheme": "central"}},
            "images_of: unknown scheme 'central'; known: dirichlet,",
        ),
        ("central", {"images_of": DEALS["iid"]}, "images_of: dataset is not allowed there: it is that of the whole"),
        ("central", {"images_of": {"clients": 5}}, "the partition: images_of: key 'scheme' is missing"),
        ("central", {"images_of": {"scheme": "iid"}}, "the partition: images_of: key 'clients' is missing"),
        ("central", {"images_of": {"scheme": "iid", "clients": 5000}}, "5000 clients, but 'digits' has 1"),
    ],
)
def test_a_partition_with_a_wrong_value(here, capsys, digits, scheme, change, words):
    assert words in refused(capsys, *partition({**DEALS[scheme], **change}, digits))


def test_a_file_for_a_folder_and_a_folder_for_a_file(here, capsys, digits):
    Path("file").write_text("kept")
    Path("folder").mkdir()
    assert "file: is a file; a folder is wanted" in refused(capsys, *partition(DEALS["iid"], "file"))
    wanted = (
        "wanted: a dataset's folder, with dataset.json, images.npy and labels.npy, which `flatfed fetch` m"
    )
    assert f"nowhere: is not there; {wanted}" in refused(capsys, *partition(DEALS["iid"], "nowhere"))
    said = refused(capsys, *partition(DEALS["iid"], "folder"))
    assert "folder: cannot be read as a dataset" in said and "dataset.json" in said
    places = {"folder": "folder: is a folder; a file", "file/clients.npz": "file", "file/deeper/clients.npz": "file"}
    for out, said in places.items():
        assert said in refused(capsys, *partition(DEALS["iid"], digits, out))
    for out in ("file", "file/below"):
        assert "file" in refused(capsys, *fetch(DIGITS, out))
    for path in ("folder", "nowhere.npz"):
        source = {"source": "npz", "path": path}
        assert f"{path}: no such file" in refused(capsys, *fetch({**DIGITS, "source": source}))
    source = {"source": "imagefolder", "path": "file", "size": 8}
    assert "no folder file/train; expected the layout" in refused(capsys, *fetch({**DIGITS, "source": source}))
    assert Path("file").read_text() == "kept"


def test_what_the_configuration_asks_for_is_whole():
    """Every dataset and every partition of every protocol and split that fit each other, at both scales."""
    for name in EXP.catalog.datasets:
        keys.check_dataset(run_specs.dataset_spec(EXP.catalog, name))
    schemes = set()
    for scale in experiment.SCALES:
        for table, _ in scales.every(EXP, scale)[0]:
            for run in cell_specs.table_runs(EXP, scale, table):
                keys.check_partition({"seed": run.seed, **run.description["partition"]})
                schemes.add(run.description["partition"]["scheme"])
    for figure in EXP.figures:
        for scale in experiment.SCALES:
            for run in figure_specs.figure_spec(EXP, scale, figure).runs.values():
                keys.check_partition({"seed": run.seed, **run.description["partition"]})
    assert schemes >= {"dirichlet", "pathological", "shards", "domain", "iid"}


def test_all_schemes_are_known_to_all_who_list_them():
    assert set(keys.PARTITIONS) == {*SCHEMES, "domain"}
    assert set(keys.SOURCES) == set(sources.SOURCES)
