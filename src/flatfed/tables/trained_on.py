"""How many images the data of a table or figure have: what was read, not what is declared.

The records of the runs say it; where they do not, or there are none, the data's dataset.json on this machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flatfed.errors import DataError

#: {name of a data set: {"train": images, "test": images}}, as records and cells have it.
Counted = dict[str, dict[str, int]]


def as_read(spec: dict[str, Any], counted: Iterable[Counted] = ()) -> dict[str, Any]:
    """Return a table's or figure's specification with the numbers of images in its ``setting``.

    ``spec["datasets"]``, where it has any, is {name: {"manifest": its dataset.json, "images": as many as are declared,
    "of": as many as the whole set has, "shape": [C, H, W]}}; in the setting, ``{name}`` becomes "(60,000 images of
    32x32)". Without a manifest (None), or where it is not on this machine, ``counted`` says how many the runs were made
    from; where that does not say either, the declared number is said to be that.

    :raises DataError: a dataset.json is there and is none.
    """
    said, counted = spec.get("setting", ""), list(counted)
    for name, about in spec.get("datasets", {}).items():
        said = said.replace(f"{{{name}}}", f"({_images(name, about, counted)})")
    return {**spec, "setting": said} if said else spec


def _images(name: str, about: dict[str, Any], counted: list[Counted]) -> str:
    """Say how many images of which size there are, and of how many where they are a part of a published set."""
    _, height, width = about["shape"]
    numbers = {sum(one[name].values()) for one in counted if name in one}
    why = "the records of the runs do not say how many were read"
    if not numbers and about["manifest"] is not None:
        path = Path(about["manifest"])
        try:
            read = json.loads(path.read_text(encoding="utf-8"))
            count, (_, height, width) = read["train"] + read["test"], read["shape"]
            numbers = {count}
        except (FileNotFoundError, NotADirectoryError):
            why = "they are not on this machine to be counted"
        except (OSError, ValueError, KeyError, TypeError) as problem:
            text = f"{path}: not that of a data set ({problem!r}); delete its folder to make it again"
            raise DataError(text) from None
    if not numbers:
        return f"{about['images']:,} images of {height}x{width} declared; {why}"
    part = f" of {about['of']:,}" if min(numbers) < about["of"] else ""
    return f"{' or '.join(f'{count:,}' for count in sorted(numbers))}{part} images of {height}x{width}"
