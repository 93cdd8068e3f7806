"""How many images the data of a table or figure have: what was read, not what is declared.

The records of the runs say it; where they do not, or there are none, the data's dataset.json on this machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from flatfed.data import manifest as manifests
from flatfed.errors import DataError
from flatfed.experiment.model import DatasetSpec
from flatfed.files import misread

#: {name of a data set: {"train": images, "test": images}}, as records and cells have it.
Counted = dict[str, dict[str, int]]


def as_read(setting: str, datasets: Mapping[str, DatasetSpec], counted: Iterable[Counted] = ()) -> str:
    """Return a table's or figure's ``setting`` with the numbers of images of its ``datasets`` in it.

    ``{name}`` becomes "(60,000 images of 32x32)". Without a manifest, or where it is not on this machine, ``counted``
    says how many the runs were made from; where that does not say either, the declared number is said to be that.

    :raises DataError: a dataset.json is there and is none.
    """
    counted = list(counted)
    for name, dataset in datasets.items():
        setting = setting.replace(f"{{{name}}}", f"({_images(name, dataset, counted)})")
    return setting


def _images(name: str, dataset: DatasetSpec, counted: list[Counted]) -> str:
    """Say how many images of which size there are, and of how many where they are a part of a published set."""
    _, height, width = dataset.shape
    numbers = {sum(each[name].values()) for each in counted if name in each}
    why = "the records of the runs do not say how many were read"
    if not numbers and dataset.manifest is not None:
        path = Path(dataset.manifest)
        try:
            manifest = manifests.read(path)
            numbers, (_, height, width) = {manifest.train + manifest.test}, manifest.shape
        except (FileNotFoundError, NotADirectoryError):
            why = "they are not on this machine to be counted"
        except (OSError, DataError) as problem:
            raise misread(path, "that of a data set", problem, "delete its folder to make it again") from None
    if not numbers:
        return f"{dataset.images:,} images of {height}x{width} declared; {why}"
    part = f" of {dataset.of:,}" if min(numbers) < dataset.of else ""
    return f"{' or '.join(f'{count:,}' for count in sorted(numbers))}{part} images of {height}x{width}"
