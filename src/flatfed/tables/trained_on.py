"""How many images the data of a table or figure have: what was read, from their dataset.json, not what is declared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flatfed.errors import DataError


def as_read(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a table's or figure's specification with the numbers of images in its ``setting``.

    ``spec["datasets"]``, where it has any, is {name: {"manifest": its dataset.json, "images": as many as are declared,
    "of": as many as the whole set has, "shape": [C, H, W]}}; in the setting, ``{name}`` becomes "(60,000 images of
    32x32)". Data that are not on this machine are said not to be: their runs were made elsewhere.

    :raises DataError: a dataset.json is there and is none.
    """
    said = spec.get("setting", "")
    for name, about in spec.get("datasets", {}).items():
        said = said.replace(f"{{{name}}}", f"({_images(about)})")
    return {**spec, "setting": said} if said else spec


def _images(about: dict[str, Any]) -> str:
    """Say how many images of which size there are, and of how many where they are a part of a published set."""
    path = Path(about["manifest"])
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
        count, (_, height, width) = read["train"] + read["test"], read["shape"]
    except (FileNotFoundError, NotADirectoryError):
        _, height, width = about["shape"]
        return f"{about['images']:,} images of {height}x{width} declared; they are not on this machine to be counted"
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise DataError(f"{path}: not that of a data set ({problem!r}); delete its folder to make it again") from None
    part = f" of {about['of']:,}" if count < about["of"] else ""
    return f"{count:,}{part} images of {height}x{width}"
