"""Files of one's own: data sets, protocols, splits and variants beside a table, their defaults and what is refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

import made
from flatfed import cli, plan
from flatfed.config.datasets import Source
from flatfed.config.protocol import DEFAULTS
from flatfed.data import counting, sources
from flatfed.errors import ConfigError
from flatfed.plan import data_sources, run_specs
from own_files import PAGE, ROOT, TEXT, load, photos, put, refusal

PHOTOS = {"source": "imagefolder", "path": "photos", "size": 32}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder with photos and one of tables."""
    photos(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_eleven_lines_are_a_table_of_four_algorithms():
    assert len(TEXT.splitlines()) <= 15
    found = load()
    cells = made.first_numbers(found, "paper", "photos")
    assert [cell.row for cell in cells] == ["fedavg", "fedsam", "fedsmoo", "fedlesam"]
    assert {(cell.metric, cell.unit, cell.paper) for cell in cells} == {("test_accuracy", "percent", None)}
    assert found.catalog.datasets["photos"].model_dump(exclude_none=True) == {
        **{"label": "photos", "classes": 3, "shape": [3, 32, 32], "train": 12, "test": 6, "declared_images": 18},
        **{"mean": [0.5] * 3, "std": [0.25] * 3, "source": PHOTOS},
    }
    assert found.catalog.splits["skewed"].headers == ["Dirichlet 0.3"]
    about = run_specs.run(found, "paper", "photos", "skewed", "fedavg", 1).config.as_json()
    assert about["partition"]["clients"] == 10 and about["dataset"]["classes"] == 3 and about["rounds"] == 10


def test_what_a_protocol_leaves_out_is_fedsmoos_but_for_its_augmentation_and_executor():
    """Images may be too many for a GPU, whose `graph` needs them there."""
    found = load(change=put("protocols", "photos", "evaluation", value={"every": 5}))
    own, theirs = (found.catalog.protocols[name].scales["paper"] for name in ("photos", "fedsmoo-cifar10"))
    different = {key for key in DEFAULTS if getattr(own, key) != getattr(theirs, key)}
    assert different == {"augmentation", "evaluation", "executor"}
    assert own.augmentation == "none"
    changed = {"every": 5, "window": 1, "smoothing": 1}
    assert own.evaluation == theirs.evaluation.model_copy(update=changed)


def test_the_page_and_the_manual_say_the_defaults():
    prose, manual = " ".join(PAGE.split()), (ROOT / "config/README.md").read_text(encoding="utf-8")
    of = DEFAULTS
    for words in (
        f"batches of {of['batch_size']}", f"{of['local_epochs']} local epochs", f"rate {of['learning_rate']} with",
        f"decay of {of['learning_rate_decay']}", f"weight decay {of['weight_decay']}", f"clip norm {of['clip_norm']:g}",
        f"seeds {of['seeds'][0]} and {of['seeds'][1]}",
        f"deviation are {data_sources.MEAN} and {data_sources.DEVIATION}",
    ):  # fmt: skip
        assert words in prose
    for key, value in of.items():
        said = f"{value:g}" if isinstance(value, float) else str(value).replace("'", "")
        assert f"`{key}` {said}" in manual


def test_counts_are_those_that_are_read(here):
    spec = run_specs.dataset_spec(load().catalog, "photos")
    assert (spec.train, spec.test) == (12, 6)
    sources.fetch(spec.as_written(), here / "read")
    assert np.load(here / "read/labels.npy").tolist() == [0] * 5 + [1] * 4 + [2] * 3 + [0, 0, 1, 1, 2, 2]


def test_domains_are_counted_as_they_are_read(here):
    (here / "photos").rename(here / "sites")

    def change(content):
        source = {"source": "imagefolder", "path": "sites", "size": 32, "domains": True}
        content["datasets"]["photos"] = {"domains": ["train", "test"], "source": source}

    spec = run_specs.dataset_spec(load(change=change).catalog, "photos")
    assert (spec.train, spec.test, spec.classes) == (15, 3, 3)  # a fifth of 12 is 2, of 6 is 1
    sources.fetch(spec.as_written(), here / "read")


@pytest.mark.parametrize(("shape", "wanted"), [((7, 10, 12), [1, 10, 12]), ((7, 10, 12, 3), [3, 10, 12])])
def test_an_archive_is_counted(here, shape, wanted):
    images, labels = np.zeros(shape, "uint8"), np.array([0, 1, 2, 3, 0, 1, 2])
    np.savez_compressed(
        "a.npz", train_images=images, train_labels=labels[:, None], test_images=images[:2], test_labels=labels[:2]
    )
    change = put("datasets", "photos", value={"source": {"source": "npz", "path": "a.npz"}})
    spec = load(change=lambda content: (change(content), put("splits", "skewed", "clients", value=3)(content)))
    spec = run_specs.dataset_spec(spec.catalog, "photos")
    assert (spec.train, spec.test, spec.classes, spec.shape) == (7, 2, 4, wanted)
    sources.fetch(spec.as_written(), here / "read")


def test_what_this_machine_reads_is_counted(here):
    (here / "photos").rename(here / "elsewhere")
    data = {"photos": {"source": "imagefolder", "path": str(here / "elsewhere"), "size": 32}}
    assert run_specs.dataset_spec(load(data=data).catalog, "photos").train == 12


def test_declared_numbers_need_no_images(here):
    (here / "photos").rename(here / "elsewhere")
    message = refusal()
    absent = "or declare classes, shape, train, test"
    for words in ("own/photos.yaml: datasets.photos", "'photos' does not exist", absent):
        assert words in message
    whole = {"classes": 3, "shape": [3, 32, 32], "train": 12, "test": 6}
    assert (
        run_specs.dataset_spec(
            load(change=put("datasets", "photos", value={**whole, "source": PHOTOS})).catalog, "photos"
        ).test
        == 6
    )


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            lambda root: (root / "photos/test/a").rename(root / "photos/test/d"),
            ["class folder 'a' is in 'train', not in 'test'"],
        ),
        (lambda root: [file.unlink() for file in (root / "photos/train/b").glob("*.png")], ["train/b holds no image"]),
        (lambda root: (root / "photos/train").rename(root / "photos/training"), ["no folder photos/train", "<class>"]),
    ],
)
def test_a_folder_that_cannot_be_counted_is_refused(here, wrong, words):
    wrong(here)
    message = refusal()
    for fragment in ("own/photos.yaml: datasets.photos", *words):
        assert fragment in message


def test_all_that_is_missing_is_in_one_message():
    message = refusal(
        """
        columns: [{protocol: photos}]
        datasets: {photos: {source: {source: imagefolder}}, more: {source: {source: torchvision}}}
        protocols: {photos: {dataset: photos}}
        splits: {skewed: {scheme: dirichlet}, plain: {}}
        algorithms: {fedsam~wide: {}}
        """
    )
    assert message.startswith("own/photos.yaml: ") and "\n" not in message
    for key, meaning in {
        "title": "what the table shows", "rows": "ids of algorithms",
        "datasets.photos.source.path": "the file or folder", "datasets.photos.source.size": "resized",
        "datasets.more.source.dataset": "torchvision",
        "protocols.photos.model": "the model", "protocols.photos.rounds": "communication rounds",
        "splits.skewed.alpha": "concentration", "splits.skewed.clients": "number of clients",
        "splits.skewed.participation": "share of the clients", "splits.plain.scheme": "how images are partitioned",
        "algorithms.fedsam~wide.set": "what differs",
    }.items():  # fmt: skip
        assert re.search(rf"'{re.escape(key)}', [^;]*{meaning}", message), key
    assert f"{message.count(chr(39) + ', ')} keys are missing" in message


def test_a_papers_protocol_leaves_nothing_to_defaults():
    message = refusal(change=put("protocols", "photos", "paper", value="mine"))
    for key in ("label", "preview", "clip_norm", "seeds"):
        assert f"'protocols.photos.{key}'" in message
    assert "own/photos.yaml: key 'reference' is missing" in refusal(change=put("paper", value="ours"))
    assert "key 'paper' is missing" in refusal(change=put("reference", value="fedsmoo2023_T1"))


@pytest.mark.parametrize(
    ("section", "name", "entry", "place"),
    [
        ("datasets", "digits", {"source": {"source": "npz", "path": "x"}}, "config/datasets.yaml: digits"),
        ("splits", "dir0.6-100", {"scheme": "iid", "clients": 2, "participation": 1}, "config/splits.yaml: dir0.6-100"),
        ("algorithms", "fedsam~rho0.2", {"set": {"rho": 3}}, "config/algorithms.yaml: fedsam~rho0.2"),
        (
            *("protocols", "fedsmoo-cifar10", {"dataset": "photos", "model": {"name": "cnn"}, "rounds": 1}),
            "config/protocols/fedsmoo-cifar10.yaml",
        ),
    ],
)
def test_an_id_that_is_taken_is_refused_naming_both_places(section, name, entry, place):
    message = refusal(change=lambda content: content.setdefault(section, {}).update({name: entry}))
    assert f"own/photos.yaml: {section}: {name!r} is declared already, in {place}" in message


def test_ids_of_another_own_file_are_taken_and_known():
    declared = yaml.safe_load(TEXT)["splits"]
    Path("own/declared.yaml").write_text(yaml.safe_dump({"splits": {"skewed": {**declared["skewed"], "alpha": 0.7}}}))
    assert "'skewed' is declared already, in own/declared.yaml: splits.skewed, with other values" in refusal()
    Path("own/declared.yaml").write_text(yaml.safe_dump({"splits": declared}))
    load().check()
    found = load(change=put("splits", value=None))
    assert "photos" in found.tables and "declared" not in found.tables
    other = "{title: Others, rows: [fedavg], columns: [{protocol: photos, splits: [skewed]}]}"
    assert len(made.first_numbers(load(other, name="more"), "paper", "more")) == 1


def test_a_split_that_is_there_under_another_id_is_named():
    Path("own/declared.yaml").write_text("splits: {mine: {scheme: iid, clients: 5, participation: 1}}")
    content = {"scheme": "iid", "label": ["IID of mine"], "clients": 5, "participation": 1}
    message = refusal(change=put("splits", "skewed", value=content))
    assert (
        "own/photos.yaml: splits.skewed: is split 'mine' under another id (own/declared.yaml: splits.mine)" in message
    )


def test_labels_say_what_is_meant():
    variants = {"fedsam~wide": {"set": {"rho": 0.5}}, "fedsam~named": {"label": "Mine", "set": {"rho": 0.7}}}
    found = load(change=put("algorithms", value=variants)).catalog.algorithms
    assert [found[name].label for name in variants] == ["FedSAM, rho = 0.5", "Mine"]


def test_nothing_of_it_imports_torch():
    Path("own/photos.yaml").write_text(TEXT)
    asked = {"scale": "paper", "tables": ["photos"], "figures": [], "table_folders": ["own"]}
    code = f"import sys; from flatfed import plan; plan.load({str(ROOT)!r}, {asked}); "
    code += "sys.exit('torch' in sys.modules)"
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    assert subprocess.run([sys.executable, "-c", code], check=False, env=env).returncode == 0


def test_what_is_said_of_a_folder_is_held_against_it(here):
    """Before the first job, and naming the file in which it is said."""
    photos = ("datasets", "photos")
    told = refusal(change=put(*photos, "shape", value=[3, 28, 28]))
    assert told == "own/photos.yaml: datasets.photos.shape: [3, 28, 28], but its source has [3, 32, 32]"
    told = refusal(change=put(*photos, "classes", value=5))
    assert told == "own/photos.yaml: datasets.photos.classes: 5, but its source has 3"
    assert load(change=put(*photos, "classes", value=3)).catalog.datasets["photos"].train == 12


def test_another_document_is_refused_with_its_line(here):
    Path("own/photos.yaml").write_text(TEXT + "---\n" + TEXT)
    line = TEXT.count("\n") + 1
    with pytest.raises(ConfigError, match=rf"own/photos\.yaml: not YAML: .* another document .*line {line}"):
        load_asked().check()


def load_asked():
    return plan.load(ROOT, {"scale": "preview", "tables": [], "figures": [], "table_folders": ["own"]})


def test_a_data_file_that_is_replaced_changes_the_listing(here):
    source = Source(source="npz", path="data.npz")
    assert data_sources.listing(source) is None, "it is not there"

    def listed(value, seconds):
        np.savez("data.npz", train_images=np.full((4, 2, 2), value, dtype=np.uint8))
        os.utime("data.npz", (seconds, seconds))
        return data_sources.listing(source)

    first = listed(0, 1000)
    assert listed(0, 1000) == first
    assert len({first, listed(0, 999), listed(1, 1000)}) == 3, "another time; other images of the same size and time"


def test_an_image_that_is_exchanged_or_moved_changes_the_listing(here):
    source = Source(**PHOTOS)
    first = counting.listing(source)
    assert counting.listing(source) == first and counting.listing(Source(source="npz", path="x.npz")) is None
    Path("photos/train/a/4.png").rename(Path("photos/train/b/9.png"))
    moved = counting.listing(source)
    Path("photos/train/b/9.png").rename(Path("photos/train/a/4.png"))
    assert moved != first == counting.listing(source)
    os.utime("photos/train/a/4.png", (1, 1))
    assert counting.listing(source) != first
    Path("photos/train/a/more.txt").touch()
    assert counting.listing(source) == counting.listing(source)


@pytest.mark.parametrize("kind", ["npz", "imagefolder"])
def test_contents_decide_whether_data_changed(here, monkeypatch, kind):
    """A file whose size or time changed is hashed again, the others are not."""
    np.savez("data.npz", train_images=np.zeros((4, 2, 2), dtype=np.uint8))
    source = Source(**PHOTOS if kind == "imagefolder" else {"source": "npz", "path": "data.npz"})
    file = Path("data.npz" if kind == "npz" else "photos/train/a/4.png")
    content, cache, hashed = file.read_bytes(), here / "cache/photos.json", []
    digest = data_sources.digest_file
    monkeypatch.setattr(data_sources, "digest_file", lambda path: hashed.append(Path(path)) or digest(path))

    def listed(content, seconds):
        file.write_bytes(content)
        os.utime(file, (seconds, seconds))
        hashed.clear()
        return data_sources.listing_of_contents(source, cache)

    first = listed(content, 1000)
    assert first == data_sources.listing(source), "as it was before there was a cache"
    assert listed(content, 1000) == first and hashed == []
    assert listed(content, 2000) == first != data_sources.listing(source)
    assert [path.resolve() for path in hashed] == [file.resolve()]
    assert (changed := listed(content + b"x", 2000)) == data_sources.listing(source) != first
    assert listed(content + b"x", 3000) == changed and listed(content, 4000) == first
    monkeypatch.setattr(data_sources, "HASHED", 10)
    assert listed(content, 5000) == data_sources.listing(source) and hashed == []


def test_a_damaged_cache_or_a_disk_without_one_is_as_no_cache(here):
    source = Source(**PHOTOS)
    (here / "cache").mkdir()
    (here / "cache/photos.json").write_text("{")
    assert data_sources.listing_of_contents(source, here / "cache/photos.json") == data_sources.listing(source)
    assert data_sources.listing_of_contents(source, Path("/proc/no/photos.json")) == data_sources.listing(source)


def test_a_path_begins_in_the_project_of_its_file(here, monkeypatch):
    (here / "elsewhere").mkdir()
    load()
    monkeypatch.chdir(here / "elsewhere")
    asked = {"scale": "paper", "tables": ["photos"], "figures": [], "table_folders": ["../own"]}
    found = plan.load(ROOT, asked)
    assert run_specs.dataset_spec(found.catalog, "photos").source.path == str(here / "photos")
    (here / "Snakefile").unlink()
    with pytest.raises(ConfigError, match=f"'{here}/own/photos' does not exist"):
        plan.load(ROOT, asked).check()
    (here / "photos").rename(here / "own/photos")
    assert run_specs.dataset_spec(plan.load(ROOT, asked).catalog, "photos").train == 12


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: "title: [", "own/photos.yaml: not YAML"),
        (lambda text: text + "colour: red\n", "own/photos.yaml: unknown key 'colour'"),
        (lambda text: text.replace("fedsam,", "fedsan,"), "did you mean 'fedsam'"),
        (lambda text: text.replace("alpha: 0.3", "alpha: 0"), "splits.skewed.alpha"),
    ],
    ids=["no YAML", "key", "row", "split"],
)
def test_a_wrong_file_stops_every_call(here, capsys, change, words):
    load()
    (here / "own/photos.yaml").write_text(change(TEXT))
    for command in (["plan", "fedsmoo2023_T1"], ["check"]):
        assert cli.main([command[0], "--config", "table_folders=[own]", *command[1:]]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert words in line


def test_absent_images_block_only_what_needs_them(here, capsys):
    load()
    (here / "photos").rename(here / "moved")
    words = "datasets.photos.source.path: 'photos' does not"
    found = plan.load(ROOT, {"scale": "paper", "tables": ["photos"], "figures": [], "table_folders": ["own"]})
    assert made.first_numbers(found, "preview", "fedsmoo2023_T1") and found.with_columns(["fedsmoo2023_T1"])
    blocked = [
        lambda: made.first_numbers(found, "paper", "photos"),
        lambda: run_specs.run(found, "paper", "photos", "skewed", "fedsam", 1),
        lambda: run_specs.dataset_spec(found.catalog, "photos"),
        lambda: found.existing(found.scale, found.requested),
        lambda: found.all_at("paper"),
        found.check,
    ]
    for question in blocked:
        with pytest.raises(ConfigError, match=re.escape(words)) as caught:
            question()
        assert "\n" not in str(caught.value)
    asked = ["--config", "table_folders=[own]"]
    assert cli.main(["plan", *asked, "fedsmoo2023_T1"]) == 0
    assert cli.main(["plan", *asked, "photos"]) == cli.main(["check", *asked]) == 2
    assert capsys.readouterr().err.count(words) == 2


@pytest.mark.parametrize("command", ["plan", "status", "verify"])
def test_a_table_without_a_preview_is_taken_at_its_own_scale_by_name(here, capsys, command):
    load()
    asked = ["--config", "table_folders=[own]", "--config", "tables=[photos]", "--config", "figures=[]"]
    assert cli.main([command, *asked, "photos"]) == 0
    said = capsys.readouterr().out
    assert "photos" in said and "paper scale" in said
