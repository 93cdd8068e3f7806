"""Folders of images: domains, image files of every mode of Pillow, and what the log of a fetch says about them."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tiny_data import arrays, fetch, pictures

from flatfed.config.datasets import ImageFolder
from flatfed.data import counting, image_folders
from flatfed.data import dataset as datasets
from flatfed.data.image_folders import Pictures
from flatfed.errors import DataError
from flatfed.files import read_json

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
    folder(tmp_path, "blocks", domains=True)
    assert [len(part) for part in blocks] == [3, 3, 3, 3, 3, 1, 3, 1]
    assert (tmp_path / "blocks/images.npy").read_bytes() == (tmp_path / "whole/images.npy").read_bytes()


def test_an_image_that_cannot_be_read_leaves_the_old_dataset_whole(tmp_path):
    pictures(tmp_path / "in", FOLDERS)
    folder(tmp_path, domains=True)
    for name in ("art/cat/2", "real_world/dog/4"):
        (tmp_path / f"in/{name}.png").write_bytes(b"garbage")
    whole = (tmp_path / "in/art/dog/1.png").read_bytes()
    (tmp_path / "in/art/dog/1.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"'office': unreadable images: ") as caught:
        folder(tmp_path, domains=True)
    for name in ("art/cat/2", "art/dog/1", "real_world/dog/4"):
        assert f"{tmp_path}/in/{name}.png (" in str(caught.value), "all damaged images in one call"
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


def source(root, **keys):
    return ImageFolder(source="imagefolder", path=str(root), size=8, **keys)


def files_read(tmp_path):
    return sorted(counting.files_read(source(tmp_path / "in"), None))


def test_other_files_are_counted_and_decide_nothing(tmp_path, capsys):
    """Copies of an editor, other suffixes, images next to and below class folders, folders that are no part, links."""
    root = tmp_path / "in"
    pictures(root, PLAIN, count=2)
    before, whole = files_read(tmp_path), folder(tmp_path, spec=PETS)
    assert before == sorted(f"{name}/{number}.png" for name in PLAIN for number in (0, 1))
    manifest = (tmp_path / "out/dataset.json").read_text()
    assert "ignored" not in manifest and "not read" not in capsys.readouterr().err
    pictures(root, ["train/cat/.ipynb_checkpoints", "train/cat/more", "val/cat", "val/dog"], count=3)
    for name in ("README", "train/a.png", "train/cat/a.HEIC", "train/cat/b.heic", "test/dog/labels.csv"):
        (root / name).write_bytes(b"x")
    (root / "val/nowhere").symlink_to("absent")
    (root / "train/cat/round.txt").symlink_to("round.txt")
    os.mkfifo(root / "val/cat/pipe.png")
    (root / "train/cat/whole.d").symlink_to("../..")
    expected = {"no suffix in .": 1, ".png in val/cat": 4, ".png in val/dog": 3, "no suffix in val": 1}
    expected |= {".png in train": 1, ".heic in train/cat": 2, ".png in train/cat/more": 3}
    expected |= {".txt in train/cat": 1, ".csv in test/dog": 1}
    assert counting.ignored(source(root), None, "here") == expected
    assert files_read(tmp_path) == before
    again = folder(tmp_path, spec=PETS)
    assert again.digest == whole.digest and read_json(tmp_path / "out/dataset.json")["ignored"] == expected
    assert "dataset 'pets': warning: not read: 4 .png in val/cat, 3 .png in " in capsys.readouterr().err
    Image.new("RGB", (9, 9)).save(root / "train/cat/new.jfif")
    assert files_read(tmp_path) == sorted([*before, "train/cat/new.jfif"])


def test_arrays_that_are_not_read_are_counted(tmp_path, capsys):
    content = {**arrays(), "val_images": np.zeros((2, 8, 8, 3), np.uint8), "val_labels": np.zeros(2, int)}
    np.savez(tmp_path / "x.npz", **content)
    fetch(tmp_path / "out", "npz", tmp_path / "x.npz")
    assert read_json(tmp_path / "out/dataset.json")["ignored"] == {"array val_images": 1, "array val_labels": 1}
    assert "not read: 1 array val_images, 1 array val_labels" in capsys.readouterr().err


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.symlink_to("absent"),
        lambda path: path.symlink_to(path.name),
        os.mkfifo,
        Path.mkdir,
    ],
)
def test_what_has_the_name_of_an_image_and_is_no_file_is_named(tmp_path, make):
    """And does not hang a plan, which lists the files."""
    pictures(tmp_path / "in", PLAIN, count=1)
    make(tmp_path / "in/test/dog/album.png")
    with pytest.raises(DataError, match=r"'pets': source: .*test/dog/album\.png is no file, with the name of an im"):
        folder(tmp_path, spec=PETS)
    assert files_read(tmp_path) == []


@pytest.mark.parametrize("kind", ["class", "domain"])
def test_names_in_two_forms_of_unicode_are_shown_as_such(tmp_path, kind):
    """The letter with its accent as one character and as two, which look the same."""
    one, two = "caf\u00e9", "cafe\u0301"
    names = [f"{part}/{name}" for part, name in (("train", one), ("test", two))]
    pictures(tmp_path / "in", names if kind == "class" else [f"{two}/cat", "art/cat"], count=1)
    keys = {} if kind == "class" else {"domains": [one, "art"]}
    with pytest.raises(DataError, match=r"'caf(\\xe9|e\\u0301)' there is the same text in another Unicode form"):
        folder(tmp_path, spec=PETS if kind == "class" else {**OFFICE, "classes": 1}, **keys)


#: Grey values of 16 bits and of 8.
DEEP, SHALLOW = [0, 128, 257, 32896, 65535], [0, 0, 1, 128, 255]


def read(path, channels=3):
    """Return the pixels of an image file in its size, and the remarks about it."""
    with Image.open(path) as picture:
        side = picture.size[0]
    files = Pictures([path], channels, side)
    pixels = files[0:1][0]
    if files.damaged:
        raise DataError(files.damaged[0])
    return pixels, dict(files.remarks)


@pytest.mark.parametrize("channels", [1, 3])
def test_sixteen_bits_are_scaled(tmp_path, channels):
    for name, kind in (("deep.png", "<u2"), ("deep.tif", "<u2"), ("big.tif", ">u2")):
        Image.fromarray(np.tile(np.array(DEEP, kind), (5, 1))).save(tmp_path / name)
        pixels, remarks = read(tmp_path / name, channels)
        assert pixels.shape == (channels, 5, 5) and pixels.dtype == np.uint8
        assert (pixels == SHALLOW).all() and remarks == {"16 bits, scaled to 8": 1}


def tiff(path, pixels, bits, *, photometric=1, sample_format=1):
    """Write ``pixels`` (bytes) as a little-endian TIFF of 2 x 2 pixels with ``bits`` of each of its samples."""
    samples = 1 if photometric < 2 else 3
    entries = [(256, 4, 1, 2), (257, 4, 1, 2), (259, 3, 1, 1), (262, 3, 1, photometric), (277, 3, 1, samples)]
    entries += [(278, 4, 1, 2), (279, 4, 1, len(pixels)), (284, 3, 1, 1)]
    start = 8 + 12 + len(pixels) + len(pixels) % 2
    for tag, value, place in ((258, bits, 8), (339, sample_format, 14)):
        entries.append((tag, 3, samples, value if samples == 1 else place))
    entries = sorted([*entries, (273, 4, 1, 20)])
    directory = struct.pack("<H", len(entries)) + b"".join(struct.pack("<HHII", *entry) for entry in entries) + bytes(4)
    head = b"II*\0" + struct.pack("<I6H", start, *[bits] * 3, *[sample_format] * 3)
    path.write_bytes(head + pixels + bytes(len(pixels) % 2) + directory)


def png(path, pixels, bits, kind):
    """Write ``pixels`` (height, bytes of a row) as a PNG of 2 x 2 pixels; ``kind``: PNG's colour type."""
    content = zlib.compress(b"".join(b"\0" + row for row in pixels))
    chunks = (b"IHDR", struct.pack(">IIBBBBB", 2, 2, bits, kind, 0, 0, 0)), (b"IDAT", content), (b"IEND", b"")
    sums = [struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks]
    packed = [struct.pack(">I", len(data)) + name + data + end for (name, data), end in zip(chunks, sums, strict=True)]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(packed))


GREY = np.array([[0, 1], [128, 255]], np.uint8)
COLOUR = np.stack([GREY, GREY[::-1], 255 - GREY])
RGB = COLOUR.transpose(1, 2, 0)
DEEP_RGB = RGB * np.uint16(257)

#: Name -> how to write it by hand, and the grey or colour pixels.
BY_HAND = {
    "grey.tif": (lambda path: tiff(path, GREY.tobytes(), 8), GREY),
    "white as zero.tif": (lambda path: tiff(path, (255 - GREY).tobytes(), 8, photometric=0), GREY),
    "bits.tif": (lambda path: tiff(path, b"\x40\x80", 1), [[0, 255], [255, 0]]),
    "colour.tif": (lambda path: tiff(path, RGB.tobytes(), 8, photometric=2), COLOUR),
    "deep colour.tif": (
        lambda path: tiff(path, DEEP_RGB.astype("<u2").tobytes(), 16, photometric=2),
        COLOUR,
    ),
    "deep.png": (lambda path: png(path, [row.tobytes() for row in (GREY * np.uint16(257)).astype(">u2")], 16, 0), GREY),
    "deep colour.png": (
        lambda path: png(path, [row.tobytes() for row in DEEP_RGB.astype(">u2")], 16, 2),
        COLOUR,
    ),
    "four bits.png": (lambda path: png(path, [b"\x0f", b"\xf0"], 4, 0), [[0, 255], [255, 0]]),
    "text.pgm": (lambda path: path.write_bytes(b"P2 2 2 255 0 1 128 255"), GREY),
    "bytes.ppm": (lambda path: path.write_bytes(b"P6 2 2 255\n" + RGB.tobytes()), COLOUR),
    "bits.pbm": (lambda path: path.write_bytes(b"P1 2 2 1 0 0 1"), [[0, 255], [255, 0]]),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_files_written_by_hand_have_their_pixels(tmp_path, name):
    write, expected = BY_HAND[name]
    write(tmp_path / name)
    pixels, _ = read(tmp_path / name)
    assert (pixels == np.broadcast_to(expected, (3, 2, 2))).all(), pixels


SAVED = {
    **{"a.bmp": "RGB", "a.gif": "P", "a.png": "P", "b.png": "LA", "c.png": "1", "a.tif": "RGB", "b.tif": "CMYK"},
    **{"c.tif": "L", "a.jpg": "RGB", "b.jpeg": "CMYK", "c.jfif": "L", "a.webp": "RGB", "d.tiff": "YCbCr"},
}


@pytest.mark.parametrize("name", SAVED)
def test_files_of_each_format_have_the_pixels_of_pillows_convert(tmp_path, name):
    """Decoded pixels are compared, because some formats lose information."""
    assert {Path(saved).suffix for saved in (*SAVED, *BY_HAND)} == counting.IMAGE_SUFFIXES
    levels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    picture, mode, path = Image.fromarray(levels), SAVED[name], tmp_path / name
    picture = picture.convert("L").convert(mode) if mode == "LA" else picture.convert(mode)
    picture.save(path, format="JPEG" if path.suffix == ".jfif" else None)
    for channels, target in ((1, "L"), (3, "RGB")):
        pixels, _ = read(path, channels)
        expected = np.asarray(Image.open(path).convert(target)).reshape(8, 8, channels).transpose(2, 0, 1)
        assert np.array_equal(pixels, expected)


def test_a_photograph_of_several_pictures_is_a_jpeg(tmp_path):
    picture = Image.new("RGB", (4, 4), (9, 9, 9))
    picture.save(tmp_path / "phone.jpg", format="MPO", save_all=True, append_images=[picture])
    pixels, remarks = read(tmp_path / "phone.jpg")
    assert abs(pixels.astype(int) - 9).max() <= 1 and remarks == {"several frames, of which the first is used": 1}


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda path: tiff(path, bytes(8), 16, photometric=0), "16 bits with white as 0; expected black as 0"),
        (lambda path: tiff(path, bytes(4), 8, sample_format=2), "signed or real numbers; expected unsigned ones"),
        (lambda path: tiff(path, bytes(6), 12), "mode I;16, 12 bits; expected 8 or 16"),
        (lambda path: path.write_bytes(b"P5 2 2 65535\n" + bytes(8)), "mode I, 32 bits; expected 8 or 16"),
        (lambda path: Image.fromarray(np.ones((2, 2), "<f4")).save(path), "mode F, 32 bits; expected 8 or 16"),
        (lambda path: Image.new("RGB", (2, 2)).save(path, format="TGA"), "cannot identify image file"),
        (lambda path: Image.new("RGB", (16, 16)).save(path, format="ICO"), "cannot identify image file"),
    ],
)
def test_files_whose_pixels_would_change_are_refused(tmp_path, write, message):
    write(tmp_path / "x.tif")
    with pytest.raises(DataError, match=rf"x\.tif \(.*{message}"):
        read(tmp_path / "x.tif", 1)


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
