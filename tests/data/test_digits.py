"""Sets of several domains: folders of images, archives, and the digits drawn in several styles."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from flatfed import plan
from flatfed.data import dataset as datasets
from flatfed.data import image_folders, sources
from flatfed.data.digits import STYLES
from flatfed.errors import ConfigError, DataError
from flatfed.plan import run_specs
from repository import ROOT

SPEC = {"name": "office", "classes": 2, "shape": [3, 8, 8], "domains": ["art", "real_world"]}


def pictures(root, folders, count=5):
    """Images of one colour each, which is different in every folder and for every number."""
    for place, folder in enumerate(folders):
        (root / folder).mkdir(parents=True)
        for k in range(count):
            Image.new("RGB", (9, 11), (40 * k, 20 * place, 200)).save(root / folder / f"{k}.png")


def source(tmp_path, **keys):
    return {"source": "imagefolder", "path": str(tmp_path / "in"), "size": 8, **keys}


def test_listed_folders_stand_for_the_domains_in_order(tmp_path):
    pictures(tmp_path / "in", ["Real World/cat", "Real World/dog", "Art/cat", "Art/dog", "left over/cat"])
    sources.fetch({**SPEC, "source": source(tmp_path, domains=["Art", "Real World"])}, tmp_path / "out")
    found = datasets.load(tmp_path / "out")
    assert found.domain_names == ("art", "real_world") and (found.train, found.test) == (16, 4)
    for place, (folder, domain, label) in enumerate([(2, 0, 0), (3, 0, 1), (0, 1, 0), (1, 1, 1)]):
        own = found.images[(found.domains == domain) & (found.labels == label)]
        assert sorted(own[:, 0, 0, 0]) == [0, 40, 80, 120, 160], place
        assert (own[:, 1] == 20 * folder).all() and (own[:, 2] == 200).all()
    assert np.bincount(found.domains[found.train :]).tolist() == [2, 2]


@pytest.mark.parametrize(("width", "height"), [(40, 30), (30, 41), (9, 9), (33, 11), (12, 13)])
@pytest.mark.parametrize(("size", "shorter"), [(8, 10), (7, 7), (8, 9), (224, 256)])
def test_resize_is_torchvisions_resize_and_crop(tmp_path, width, height, size, shorter):
    from torchvision.transforms.functional import center_crop, resize

    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "one.png")
    ours = image_folders.Pictures([tmp_path / "one.png"], 3, size, "here", shorter)[0:1]
    theirs = np.asarray(center_crop(resize(Image.fromarray(pixels), shorter), [size, size])).transpose(2, 0, 1)
    assert (ours[0] == theirs).all()
    whole = image_folders.Pictures([tmp_path / "one.png"], 3, size, "here")[0:1]
    squeezed = np.asarray(resize(Image.fromarray(pixels), [size, size])).transpose(2, 0, 1)
    assert (whole[0] == squeezed).all()


@pytest.mark.parametrize("channels", [1, 3])
def test_a_data_set_is_cut_out_as_its_source_says(tmp_path, channels):
    from torchvision.transforms.functional import center_crop, resize, rgb_to_grayscale

    slope = np.arange(20 * 12 * 3).reshape(20, 12, 3) % 256
    for k, folder in enumerate(["train/cat", "train/dog", "test/cat", "test/dog"]):
        (tmp_path / "in" / folder).mkdir(parents=True)
        Image.fromarray((slope + 7 * k).astype(np.uint8)).save(tmp_path / "in" / folder / "one.png")
    spec = {"name": "slopes", "classes": 2, "shape": [channels, 8, 8], "source": source(tmp_path, resize=10)}
    sources.fetch(spec, tmp_path / "out")
    found = datasets.load(tmp_path / "out")
    for k in range(4):
        whole = Image.fromarray((slope + 7 * k).astype(np.uint8))
        cut = np.asarray(center_crop(resize(rgb_to_grayscale(whole) if channels == 1 else whole, 10), [8, 8]))
        assert (found.images[k] == (cut[None] if channels == 1 else cut.transpose(2, 0, 1))).all()
    assert json.loads((tmp_path / "out/dataset.json").read_text())["source"]["resize"] == 10


def test_what_is_cut_out_fits_into_what_it_is_cut_out_of(tmp_path):
    pictures(tmp_path / "in", ["art/cat", "art/dog", "real_world/cat", "real_world/dog"])
    with pytest.raises(DataError, match=r"source\.resize: 7 is not allowed; it must be at least size, 8, which"):
        sources.fetch({**SPEC, "source": source(tmp_path, domains=True, resize=7)}, tmp_path / "out")
    data = {"officehome": {"source": "imagefolder", "path": str(tmp_path / "in"), "size": 224, "resize": 223}}
    with pytest.raises(ConfigError, match=r"data\.officehome\.resize: 223 is not allowed; .* at least size, 224"):
        plan.load(ROOT, {"scale": "paper", "tables": ["fedlesam2024_T3"], "figures": [], "data": data}).check()


def test_images_are_read_a_block_at_a_time(tmp_path, monkeypatch, capsys):
    pictures(tmp_path / "in", ["art/cat", "art/dog", "real_world/cat", "real_world/dog"])
    sources.fetch({**SPEC, "source": source(tmp_path, domains=True)}, tmp_path / "whole")
    read = []
    original = image_folders.Pictures.__getitem__
    monkeypatch.setattr(
        image_folders.Pictures, "__getitem__", lambda self, part: read.append(original(self, part)) or read[-1]
    )
    monkeypatch.setattr(datasets, "BLOCK", 3 * 3 * 8 * 8)
    monkeypatch.setattr(datasets, "PAUSE", 0.0)
    sources.fetch({**SPEC, "source": source(tmp_path, domains=True)}, tmp_path / "blocks")
    assert [len(part) for part in read] == [3, 3, 3, 3, 3, 1, 3, 1]
    assert (tmp_path / "blocks/images.npy").read_bytes() == (tmp_path / "whole/images.npy").read_bytes()
    assert "dataset 'office': 20 of 20 images written" in capsys.readouterr().err


def test_an_image_that_cannot_be_read_leaves_the_old_dataset_whole(tmp_path):
    pictures(tmp_path / "in", ["art/cat", "art/dog", "real_world/cat", "real_world/dog"])
    spec = {**SPEC, "source": source(tmp_path, domains=True)}
    sources.fetch(spec, tmp_path / "out")
    (tmp_path / "in/real_world/dog/4.png").write_bytes(b"garbage")
    with pytest.raises(DataError, match=r"real_world/dog/4\.png is not a readable image"):
        sources.fetch(spec, tmp_path / "out")
    datasets.verify(tmp_path / "out")


@pytest.mark.parametrize(
    ("folders", "keys", "message"),
    [
        (
            ["art/cat", "art/dog"],
            {},
            "domain folder 'real_world' is missing.*art.*expected the layout <domain>/<class>",
        ),
        (["art/cat", "art/dog", "Real World/cat"], {"domains": ["art", "Real world"]}, "is it named 'Real World'"),
        (["art/cat", "art/dog"], {"domains": ["art"]}, "1 folders are listed; expected one for each of the 2 domains"),
        (
            ["art/cat", "art/dog", "real_world/cat", "real_world/cow"],
            {},
            "class folder 'cow' is in 'real_world', not in 'art'",
        ),
        (
            ["art/cat", "art/dog", "real_world/cat"],
            {},
            "class folder 'dog' is in 'art', not in 'real_world'",
        ),
        ([], {"obtain": "Ask the authors."}, r"no folder .*<domain>/<class>/<image>\. Ask the authors\."),
    ],
)
def test_what_is_missing_is_named(tmp_path, folders, keys, message):
    pictures(tmp_path / "in", folders)
    with pytest.raises(DataError, match=message) as error:
        sources.fetch({**SPEC, "source": source(tmp_path, **{"domains": True, **keys})}, tmp_path / "out")
    assert "'office'" in str(error.value)


@pytest.mark.parametrize(
    ("folders", "keys", "message"),
    [
        (["photo", "cartoon", "sketch"], {}, r"data\.pacs\.path: '.*in': domain folder 'art_painting' is missing"),
        (
            ["photo", "Art_Painting", "cartoon", "sketch"],
            {},
            r"is it named 'Art_Painting'\? present: .*; expected the layout <domain>/",
        ),
        (
            ["photo", "art_painting", "cartoon", "sketch"],
            {"domains": ["photo", "art_painting", "cartoon", "sketches"]},
            r"data\.pacs\.domains: .*domain folder 'sketches' is missing; is it named 'sketch'",
        ),
        (["photo"], {"domains": ["photo"]}, r"data\.pacs\.domains: 1 folders .* photo, art_painting, cartoon, sketch"),
        (["photo"], {"obtain": "Ask the authors."}, r"Ask the authors\."),
    ],
)
def test_a_missing_domain_folder_is_named_before_the_first_job(tmp_path, folders, keys, message):
    for folder in folders:
        (tmp_path / "in" / folder).mkdir(parents=True)
    asked = {"scale": "paper", "tables": [], "figures": []}
    with pytest.raises(ConfigError, match=message):
        plan.load(
            ROOT, {**asked, "data": {"pacs": source(tmp_path, **{"domains": True, "resize": 8, **keys})}}
        ).check()


def test_folders_of_all_domains_are_taken(tmp_path):
    for folder in ("photo", "art_painting", "cartoon", "sketch", "left over"):
        (tmp_path / "in" / folder).mkdir(parents=True)
    given = source(tmp_path, domains=True, resize=8)
    loaded = plan.load(ROOT, {"scale": "paper", "tables": [], "figures": [], "data": {"pacs": given}})
    assert run_specs.dataset_spec(loaded.catalog, "pacs").source.as_written() == given


def archive(tmp_path, names):
    arrays = {}
    for part, count in (("train", 12), ("test", 6)):
        arrays[f"{part}_images"] = np.full((count, 8, 8, 3), np.arange(count)[:, None, None, None], np.uint8)
        arrays[f"{part}_labels"], arrays[f"{part}_domains"] = np.arange(count) % 2, np.arange(count) // 2 % len(names)
    np.savez(tmp_path / "in.npz", domains=np.array(names), **arrays)
    sources.fetch({**SPEC, "source": {"source": "npz", "path": str(tmp_path / "in.npz")}}, tmp_path / "out")
    return datasets.load(tmp_path / "out")


def test_an_archives_domains_are_numbered_as_declared(tmp_path):
    found = archive(tmp_path, ["real_world", "art"])
    assert found.domain_names == ("art", "real_world")
    assert found.domains[:12].tolist() == [1, 1, 0, 0] * 3


def test_an_archive_with_other_domains_is_refused(tmp_path):
    with pytest.raises(DataError, match="unknown domain 'rael_world'; did you mean 'real_world'"):
        archive(tmp_path, ["rael_world", "art"])
    with pytest.raises(DataError, match="has no domain 'real_world'; it has: art"):
        archive(tmp_path, ["art"])
    digits = {"source": "sklearn", "test": 500}
    with pytest.raises(DataError, match="its source has no domains; expected art, real_world"):
        sources.fetch({**SPEC, "classes": 10, "shape": [1, 8, 8], "source": digits}, tmp_path / "out")


@pytest.mark.parametrize("name", ["digits-domains4", "digits-domains6"])
def test_digits_in_styles(tmp_path, name):
    entry = plan.load(ROOT).catalog.datasets[name]
    spec = {"name": name, "classes": entry.classes, "shape": entry.shape, "domains": entry.domains}
    spec["source"] = entry.source.as_written()
    for folder in ("a", "b"):
        sources.fetch(spec, tmp_path / folder)
    found, again = datasets.load(tmp_path / "a"), datasets.load(tmp_path / "b")
    assert found.digest == again.digest and (found.train, found.test) == (entry.train, entry.test)
    plain = {"name": "d", "classes": 10, "shape": [1, 8, 8], "source": {"source": "sklearn", "test": 500}}
    sources.fetch(plain, tmp_path / "plain")
    originals = datasets.load(tmp_path / "plain")
    assert np.array_equal(found.labels, originals.labels)
    for number, style in enumerate(found.domain_names):
        own = np.flatnonzero(found.domains == number)
        assert len(own) >= 1797 // len(found.domain_names) - 10, style
        assert len(np.unique(found.labels[own])) == 10, style
        for place in own[:5]:
            assert np.array_equal(found.images[place, 0], STYLES[style](originals.images[place, 0])), style
    pixels = found.images[: found.train] / 255
    assert pixels.mean() == pytest.approx(entry.mean[0], abs=0.01)
    assert pixels.std() == pytest.approx(entry.std[0], abs=0.01)


def test_styles_by_hand():
    image = np.zeros((8, 8), np.uint8)
    image[3:5, 3:5] = 180
    shown = {style: draw(image) for style, draw in STYLES.items()}
    assert shown["plain"] is image and shown["inverted"].tolist() == (255 - image).tolist()
    assert np.argwhere(shown["shifted"]).tolist() == [[2, 2], [2, 3], [3, 2], [3, 3]]
    assert shown["blurred"][3, 3] == 80 and shown["blurred"][2, 2] == 20 and shown["blurred"][1, 1] == 0
    # three quarters of the length: what was 2 x 2 pixels of 180 covers 1.5 x 1.5
    assert shown["shrunk"].sum() == pytest.approx(180 * 1.5**2, abs=2)
    assert np.array_equal(shown["shrunk"], shown["shrunk"][::-1, ::-1])
    assert np.array_equal(shown["rotated"], shown["rotated"][::-1, ::-1]), "a turn keeps the symmetry of a half turn"
    assert not np.array_equal(shown["rotated"], shown["rotated"].T)
    assert np.array_equal(STYLES["noisy"](image), shown["noisy"]) and shown["noisy"][image == 0].std() > 10


def test_styles_are_refused_by_name(tmp_path):
    digits = {"source": "sklearn", "test": 500, "expand": "styles"}
    spec = {"name": "d", "classes": 10, "shape": [1, 8, 8], "source": digits}
    with pytest.raises(DataError, match="unknown style 'blured'; did you mean 'blurred'"):
        sources.fetch({**spec, "domains": ["plain", "blured"]}, tmp_path)
    with pytest.raises(DataError, match="styles needs a list `domains`"):
        sources.fetch(spec, tmp_path)


class Published:
    """What torchvision.datasets gives, without the download; pixels tell part and position."""

    def __init__(self, folder, train, download, split=None):
        import torch

        assert download and split == "byclass"
        count = 60 if train else 20
        self.data = torch.zeros(count, 4, 4, dtype=torch.uint8)
        self.data[:, 1, 3] = torch.arange(count) + (100 if train else 200)
        self.targets = torch.arange(count) % 2


def test_emnist_is_upright_and_drawn_in_proportion(tmp_path, monkeypatch):
    from torchvision import datasets as published

    monkeypatch.setattr(published, "EMNIST", Published)
    spec = {"name": "emnist", "classes": 2, "shape": [1, 4, 4]}
    given = {"source": "torchvision", "dataset": "EMNIST"}
    sources.fetch({**spec, "source": given}, tmp_path / "all")
    found = datasets.load(tmp_path / "all")
    assert (found.train, found.test) == (60, 20)
    assert found.images[:60, 0, 3, 1].tolist() == list(range(100, 160)) and not found.images[:, 0, 1, 3].any()
    for folder in ("a", "b"):
        sources.fetch({**spec, "source": {**given, "draw": 41}}, tmp_path / folder)
    drawn = datasets.load(tmp_path / "a")
    assert (drawn.train, drawn.test) == (31, 10) and drawn.digest == datasets.load(tmp_path / "b").digest
    pixels = drawn.images[:, 0, 3, 1].astype(int)
    assert len(set(pixels)) == 41 and (pixels[:31] < 160).all() and (pixels[31:] >= 200).all()
    assert np.array_equal(drawn.labels, pixels % 2)
    with pytest.raises(DataError, match=r"source\.draw: 81 must lie between 2 and the 80 images"):
        sources.fetch({**spec, "source": {**given, "draw": 81}}, tmp_path / "c")


def test_the_declared_sets_have_the_papers_sizes():
    declared = plan.load(ROOT).catalog.datasets
    totals = {name: declared[name].train + declared[name].test for name in declared}
    assert totals["emnist"] == declared["emnist"].source.draw == 81_425
    assert (totals["officehome"], totals["domainnet"], totals["pacs"]) == (15_588, 586_575, 9_991)
    assert {name: (e.classes, len(e.domains)) for name, e in declared.items() if e.domains} == {
        "officehome": (65, 4),
        "domainnet": (345, 6),
        "pacs": (7, 4),
        "digits-domains4": (10, 4),
        "digits-domains6": (10, 6),
    }
