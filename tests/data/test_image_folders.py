"""Image files of every mode of Pillow, and what the log of a fetch says about them."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from PIL import Image, ImageMode

from flatfed.data import dataset as datasets
from flatfed.data import sources
from flatfed.data.image_folders import Pictures, eight_bits
from flatfed.errors import DataError

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
@pytest.mark.parametrize("target", ["L", "RGB"])
def test_each_mode_gives_eight_bits_or_is_refused(mode, target):
    picture, accepted = Image.new(mode, (3, 2)), MODES[mode][target == "RGB"]
    if accepted:
        converted = eight_bits(picture, target)
        assert (converted.mode, converted.size) == (target, (3, 2))
    else:
        with pytest.raises(ValueError, match=f"(mode|from) {mode}"):
            eight_bits(picture, target)


def read(path, channels=1, size=None):
    with Image.open(path) as picture:
        side = size or picture.size[0]
    pictures = Pictures([path], channels, side, "dataset 'x'")
    return pictures[0:1][0], dict(pictures.remarks)


@pytest.mark.parametrize("name", ["deep.png", "deep.tif", "big.tif"])
@pytest.mark.parametrize("channels", [1, 3])
def test_sixteen_bits_are_scaled(tmp_path, name, channels):
    grey = np.tile(np.array(DEEP, ">u2" if name == "big.tif" else "<u2"), (5, 1))
    Image.fromarray(grey).save(tmp_path / name)
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


@pytest.mark.parametrize(("kind", "said"), [("<i4", "mode I, 32 bits"), ("<f4", "mode F, 32 bits"), ("", "mode I;16")])
def test_other_depths_are_refused_with_file_and_mode(tmp_path, kind, said):
    path = tmp_path / "deep.tif"
    if kind:
        Image.fromarray(np.ones((2, 2), kind)).save(path)
    else:
        twelve_bits(path)
        said += ", 12 bits"
    with pytest.raises(DataError, match=rf"'x': .*deep\.tif is not a readable image \({said}; expected 8 or 16"):
        read(path)


def colours(path, **options):
    pixels = np.arange(192).reshape(8, 8, 3).astype(np.uint8)
    Image.fromarray(pixels).save(path, **options)
    return pixels.transpose(2, 0, 1)


def test_transparency_rotation_and_frames_are_counted_and_change_nothing(tmp_path):
    rotated = Image.Exif()
    rotated[0x0112] = 6
    plain = colours(tmp_path / "plain.png")
    assert np.array_equal(read(tmp_path / "plain.png", 3)[0], plain) and read(tmp_path / "plain.png", 3)[1] == {}
    colours(tmp_path / "rotated.png", exif=rotated)
    pixels, remarks = read(tmp_path / "rotated.png", 3)
    assert np.array_equal(pixels, plain) and remarks == {"an EXIF rotation, not applied": 1}
    with Image.open(tmp_path / "plain.png") as picture:
        picture.putalpha(9)
        picture.save(tmp_path / "alpha.png")
    pixels, remarks = read(tmp_path / "alpha.png", 3)
    assert np.array_equal(pixels, plain) and remarks == {"transparency, dropped": 1}
    first, second = (Image.new("RGB", (4, 4), (level, 0, 0)) for level in (10, 200))
    first.save(tmp_path / "moving.gif", save_all=True, append_images=[second])
    pixels, remarks = read(tmp_path / "moving.gif", 3)
    assert (pixels[0] == 10).all() and remarks == {"several frames, of which the first is used": 1}


def test_damaged_metadata_is_no_reason_to_refuse_an_image(tmp_path):
    plain = colours(tmp_path / "x.png", exif=b"Exif\0\0nonsense")
    assert np.array_equal(read(tmp_path / "x.png", 3)[0], plain)


def test_the_log_of_a_fetch_counts_images_that_are_not_as_in_their_files(tmp_path, capsys):
    for folder in ("train/a", "train/b", "test/a", "test/b"):
        (tmp_path / "photos" / folder).mkdir(parents=True)
    for number, (name, level) in enumerate({"train/a": 1, "train/b": 2, "test/a": 3, "test/b": 1}.items()):
        Image.new("RGBA" if number < 2 else "RGB", (4, 4), (level, 0, 0)).save(tmp_path / "photos" / name / "1.png")
    source = {"source": "imagefolder", "path": str(tmp_path / "photos"), "size": 4}
    sources.fetch({"name": "photos", "classes": 2, "shape": [3, 4, 4], "source": source}, tmp_path / "out")
    assert capsys.readouterr().err.splitlines() == [
        "dataset 'photos': warning: images with transparency, dropped: 2",
        "dataset 'photos': warning: images with several labels: 1",
        "dataset 'photos': warning: images with equals in training and test data: 1",
    ]
    assert datasets.load(tmp_path / "out").images[:, 0, 0, 0].tolist() == [1, 2, 3, 1]


@pytest.mark.parametrize(
    ("train", "labels", "test", "said"),
    [
        ([1, 2, 3], [0, 1, 0], [4, 5], []),
        ([1, 1, 3], [0, 0, 1], [4, 5], []),
        ([1, 1, 3], [0, 1, 1], [4, 5], ["several labels: 1"]),
        ([1, 2, 3], [0, 1, 0], [1, 2], ["several labels: 1", "equals in training and test data: 2"]),
    ],
)
def test_an_image_under_two_labels_or_in_both_parts_is_counted(tmp_path, capsys, train, labels, test, said):
    images = {part: np.full((len(ids), 2, 2), 0, np.uint8) for part, ids in (("train", train), ("test", test))}
    for part, ids in (("train", train), ("test", test)):
        images[part][:, 0, 0] = ids
    arrays = {"train_images": images["train"], "train_labels": labels, "test_images": images["test"]}
    np.savez(tmp_path / "x.npz", **arrays, test_labels=[0, 0])
    spec = {"name": "x", "classes": 2, "shape": [1, 2, 2], "source": {"source": "npz", "path": str(tmp_path / "x.npz")}}
    sources.fetch(spec, tmp_path / "out")
    assert capsys.readouterr().err.splitlines() == [f"dataset 'x': warning: images with {text}" for text in said]
