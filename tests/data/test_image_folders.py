"""Folders of images: domains, image files of every mode of Pillow, and what the log of a fetch says about them."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from PIL import Image, ImageMode
from tiny_data import fetch, pictures

from flatfed import plan
from flatfed.data import dataset as datasets
from flatfed.data import image_folders
from flatfed.data.image_folders import Pictures, eight_bits
from flatfed.errors import ConfigError, DataError

OFFICE = {"name": "office", "classes": 2, "shape": [3, 8, 8], "domains": ["art", "real_world"]}
PETS = {"name": "pets", "classes": 2, "shape": [3, 8, 8]}
FOLDERS = ["art/cat", "art/dog", "real_world/cat", "real_world/dog"]
PLAIN = ["train/cat", "train/dog", "test/cat", "test/dog"]


def folder(tmp_path, out="out", spec=OFFICE, **keys):
    return fetch(tmp_path / out, "imagefolder", tmp_path / "in", spec, size=8, **keys)


def test_folders_of_parts_and_of_domains(tmp_path):
    pictures(tmp_path / "in", PLAIN, count=2)
    plain = folder(tmp_path, spec=PETS)
    assert (plain.train, plain.test) == (4, 4) and plain.labels.tolist() == [0, 0, 1, 1] * 2
    assert plain.images[1, :, 0, 0].tolist() == [40, 0, 200]
    domains = folder(tmp_path, spec=PETS, domains=True)
    assert domains.domain_names == ("test", "train") and np.bincount(domains.domains).tolist() == [4, 4]


def test_listed_folders_stand_for_the_domains_in_order(tmp_path):
    pictures(tmp_path / "in", ["Real World/cat", "Real World/dog", "Art/cat", "Art/dog", "left over/cat"])
    office = folder(tmp_path, domains=["Art", "Real World"])
    assert office.domain_names == ("art", "real_world") and (office.train, office.test) == (16, 4)
    for place, domain, label in [(2, 0, 0), (3, 0, 1), (0, 1, 0), (1, 1, 1)]:
        images = office.images[(office.domains == domain) & (office.labels == label)]
        assert sorted(images[:, 0, 0, 0]) == [0, 40, 80, 120, 160], place
        assert (images[:, 1] == 20 * place).all() and (images[:, 2] == 200).all()
    assert np.bincount(office.domains[office.train :]).tolist() == [2, 2]


@pytest.mark.parametrize(("width", "height"), [(40, 30), (30, 41), (9, 9), (33, 11), (12, 13)])
@pytest.mark.parametrize(("size", "shorter"), [(8, 10), (7, 7), (8, 9), (224, 256)])
def test_resize_is_torchvisions_resize_and_crop(tmp_path, width, height, size, shorter):
    from torchvision.transforms.functional import center_crop, resize

    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "one.png")
    ours = Pictures([tmp_path / "one.png"], 3, size, "here", shorter)[0:1]
    theirs = np.asarray(center_crop(resize(Image.fromarray(pixels), shorter), [size, size])).transpose(2, 0, 1)
    assert (ours[0] == theirs).all()
    whole = Pictures([tmp_path / "one.png"], 3, size, "here")[0:1]
    assert (whole[0] == np.asarray(resize(Image.fromarray(pixels), [size, size])).transpose(2, 0, 1)).all()


def test_a_dataset_is_cut_out_in_grey_as_its_source_says(tmp_path):
    from torchvision.transforms.functional import center_crop, resize, rgb_to_grayscale

    slope = np.arange(20 * 12 * 3).reshape(20, 12, 3) % 256
    originals = [Image.fromarray((slope + 7 * k).astype(np.uint8)) for k in range(4)]
    for name, picture in zip(PLAIN, originals, strict=True):
        (tmp_path / "in" / name).mkdir(parents=True)
        picture.save(tmp_path / "in" / name / "one.png")
    slopes = folder(tmp_path, spec={**PETS, "shape": [1, 8, 8]}, resize=10)
    for image, picture in zip(slopes.images, originals, strict=True):
        assert (image == np.asarray(center_crop(resize(rgb_to_grayscale(picture), 10), [8, 8]))).all()
    assert '"resize": 10' in (tmp_path / "out/dataset.json").read_text()
    with pytest.raises(DataError, match=r"source\.resize: 7 is not allowed; it must be at least size, 8, which"):
        folder(tmp_path, spec=PETS, resize=7)


def test_images_are_read_a_block_at_a_time(tmp_path, monkeypatch, capsys):
    pictures(tmp_path / "in", FOLDERS)
    folder(tmp_path, "whole", domains=True)
    blocks, original = [], Pictures.__getitem__

    def counted(self, part):
        blocks.append(original(self, part))
        return blocks[-1]

    monkeypatch.setattr(image_folders.Pictures, "__getitem__", counted)
    monkeypatch.setattr(datasets, "BLOCK", 3 * 3 * 8 * 8)
    monkeypatch.setattr(datasets, "PAUSE", 0.0)
    folder(tmp_path, "blocks", domains=True)
    assert [len(part) for part in blocks] == [3, 3, 3, 3, 3, 1, 3, 1]
    assert (tmp_path / "blocks/images.npy").read_bytes() == (tmp_path / "whole/images.npy").read_bytes()
    assert "dataset 'office': 20 of 20 images written" in capsys.readouterr().err


def test_an_image_that_cannot_be_read_leaves_the_old_dataset_whole(tmp_path):
    pictures(tmp_path / "in", FOLDERS)
    folder(tmp_path, domains=True)
    (tmp_path / "in/real_world/dog/4.png").write_bytes(b"garbage")
    with pytest.raises(DataError, match=r"real_world/dog/4\.png is not a readable image"):
        folder(tmp_path, domains=True)
    datasets.verify(tmp_path / "out")


@pytest.mark.parametrize(
    ("folders", "keys", "message"),
    [
        (["art/cat", "art/dog"], {}, "domain folder 'real_world' is missing.*art.*expected the layout <domain>/<cla"),
        (["art/cat", "Real World/cat"], {"domains": ["art", "Real world"]}, "is it named 'Real World'"),
        (["art/cat"], {"domains": ["art"]}, "1 folders are listed; expected one for each of the 2 domains"),
        ([*FOLDERS[:3], "real_world/cow"], {}, "class folder 'cow' is in 'real_world', not in 'art'"),
        (FOLDERS[:3], {}, "class folder 'dog' is in 'art', not in 'real_world'"),
        (["left/a"], {"domains": None}, r"no folder .*expected the layout train/<class>/<image>"),
        (["train/a", "test/a"], {"domains": None}, r"1 class folders .* but `classes: 2`"),
        ([], {"obtain": "Ask the authors."}, r"no folder .*<domain>/<class>/<image>\. Ask the authors\."),
    ],
)
def test_missing_folders_are_named(tmp_path, folders, keys, message):
    pictures(tmp_path / "in", folders, count=1)
    keys = {key: value for key, value in {"domains": True, **keys}.items() if value}
    spec = OFFICE if "domains" in keys else {**PETS, "name": "office"}
    with pytest.raises(DataError, match=f"'office'.*{message}"):
        folder(tmp_path, spec=spec, **keys)


def test_a_missing_domain_folder_is_named_before_the_first_job(tmp_path, small_config):
    def check():
        source = {"source": "imagefolder", "path": str(tmp_path), "size": 8, "domains": True, "resize": 8}
        plan.load(small_config, {"scale": "paper", "tables": [], "figures": [], "data": {"pacs": source}})

    for name in ("photo", "cartoon", "sketch", "left over"):
        (tmp_path / name).mkdir()
    with pytest.raises(ConfigError, match=r"pacs\.path: '.*': domain folder 'art_painting' is m.*the layout <d"):
        check()
    (tmp_path / "art_painting").mkdir()
    check()


#: Grey values of 16 bits and of 8.
DEEP, SHALLOW = [0, 128, 257, 32896, 65535], [0, 0, 1, 128, 255]

#: Mode -> whether it gives 8-bit grey, and 8-bit colours.
MODES = {
    **dict.fromkeys(("1", "L", "P", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "LA", "PA", "RGBa", "RGBX"), (True, True)),
    **dict.fromkeys(("I;16", "I;16L", "I;16B", "I;16N"), (True, True)),
    "LAB": (False, True),
    **dict.fromkeys(("La", "I", "F"), (False, False)),
}


def test_the_modes_are_those_of_pillow():
    known = {mode for mode in MODES if ImageMode.getmode(mode)}
    assert known == {*MODES} >= {*Image.MODES}


@pytest.mark.parametrize("mode", MODES)
def test_each_mode_gives_eight_bits_or_is_refused(mode):
    picture = Image.new(mode, (3, 2))
    for target, accepted in zip(("L", "RGB"), MODES[mode], strict=True):
        if accepted:
            converted = eight_bits(picture, target)
            assert (converted.mode, converted.size) == (target, (3, 2))
        else:
            with pytest.raises(ValueError, match=f"(mode|from) {mode}"):
                eight_bits(picture, target)


def read(path, channels=3):
    """Return the pixels of an image file in its size, and the remarks about it."""
    with Image.open(path) as picture:
        side = picture.size[0]
    files = Pictures([path], channels, side, "dataset 'x'")
    return files[0:1][0], dict(files.remarks)


@pytest.mark.parametrize("channels", [1, 3])
def test_sixteen_bits_are_scaled(tmp_path, channels):
    for name, kind in (("deep.png", "<u2"), ("deep.tif", "<u2"), ("big.tif", ">u2")):
        Image.fromarray(np.tile(np.array(DEEP, kind), (5, 1))).save(tmp_path / name)
        pixels, remarks = read(tmp_path / name, channels)
        assert pixels.shape == (channels, 5, 5) and pixels.dtype == np.uint8
        assert (pixels == SHALLOW).all() and remarks == {"16 bits, scaled to 8": 1}


def twelve_bits(path):
    """Write a grey TIFF of 2 x 2 pixels of 12 bits, which Pillow opens as I;16."""
    entries = [(256, 4, 2), (257, 4, 2), (258, 3, 12), (259, 3, 1), (262, 3, 1), (273, 4, 8), (277, 3, 1)]
    entries += [(278, 4, 2), (279, 4, 6)]
    directory = b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in entries)
    start = b"II*\0" + struct.pack("<I6sH", 14, bytes(6), len(entries))
    path.write_bytes(start + directory + bytes(4))


@pytest.mark.parametrize(
    ("kind", "message"), [("<i4", "mode I, 32 bits"), ("<f4", "mode F, 32 bits"), ("", "mode I;16, 12 bits")]
)
def test_other_depths_are_refused_with_file_and_mode(tmp_path, kind, message):
    path = tmp_path / "deep.tif"
    if kind:
        Image.fromarray(np.ones((2, 2), kind)).save(path)
    else:
        twelve_bits(path)
    with pytest.raises(DataError, match=rf"'x': .*deep\.tif is not a readable image \({message}; expected 8 or 16"):
        read(path, 1)


def test_transparency_rotation_and_frames_are_counted_and_change_nothing(tmp_path, capsys):
    values = np.arange(192).reshape(8, 8, 3).astype(np.uint8)
    picture, moving = Image.fromarray(values), [Image.new("RGB", (4, 4), (level, 0, 0)) for level in (10, 200)]
    rotated, transparent = Image.Exif(), picture.copy()
    rotated[0x0112] = 6
    transparent.putalpha(9)
    for name, image, keywords, remark in (
        ("plain.png", picture, {}, {}),
        ("damaged.png", picture, {"exif": b"Exif\0\0nonsense"}, {}),
        ("rotated.png", picture, {"exif": rotated}, {"an EXIF rotation, not applied": 1}),
        ("alpha.png", transparent, {}, {"transparency, dropped": 1}),
    ):
        image.save(tmp_path / name, **keywords)
        pixels, remarks = read(tmp_path / name)
        assert np.array_equal(pixels, values.transpose(2, 0, 1)) and remarks == remark
    moving[0].save(tmp_path / "moving.gif", save_all=True, append_images=moving[1:])
    pixels, remarks = read(tmp_path / "moving.gif")
    assert (pixels[0] == 10).all() and remarks == {"several frames, of which the first is used": 1}
    pictures(tmp_path / "in", PLAIN, count=1)
    for level, name in enumerate(PLAIN[:2]):
        Image.new("RGBA", (8, 8), (level, 9, 9)).save(tmp_path / "in" / name / "0.png")
    folder(tmp_path, spec=PETS)
    assert capsys.readouterr().err == "dataset 'pets': warning: images with transparency, dropped: 2\n"


@pytest.mark.parametrize(
    ("train", "labels", "test", "warnings"),
    [
        ([1, 1, 3], [0, 0, 1], [4, 5], []),
        ([1, 1, 3], [0, 1, 1], [4, 5], ["several labels: 1"]),
        ([1, 2, 3], [0, 1, 0], [1, 2], ["several labels: 1", "equals in training and test data: 2"]),
    ],
)
def test_an_image_under_two_labels_or_in_both_parts_is_counted(tmp_path, capsys, train, labels, test, warnings):
    images = [np.repeat(np.array(levels, np.uint8), 4).reshape(-1, 2, 2) for levels in (train, test)]
    content = {"train_images": images[0], "train_labels": labels, "test_images": images[1], "test_labels": [0, 0]}
    np.savez(tmp_path / "x.npz", **content)
    fetch(tmp_path / "out", "npz", tmp_path / "x.npz", {"name": "x", "classes": 2, "shape": [1, 2, 2]})
    assert capsys.readouterr().err.splitlines() == [f"dataset 'x': warning: images with {text}" for text in warnings]
