"""A folder of photos, and the file of docs/your-own-data.md with changes, loaded as one's own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from PIL import Image

from flatfed import plan
from flatfed.errors import ConfigError
from repository import ROOT

PAGE = (ROOT / "docs" / "your-own-data.md").read_text(encoding="utf-8")
TEXT = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1]


def photos(root):
    """Make a project with tables in ``own`` and photos: 5 + 4 + 3 images of three classes to train, 2 each to test."""
    for part, counts in (("train", (5, 4, 3)), ("test", (2, 2, 2))):
        for name, count in zip("abc", counts, strict=True):
            folder = root / "photos" / part / name
            folder.mkdir(parents=True)
            for number in range(count):
                Image.new("RGB", (9, 7), (number, 0, 0)).save(folder / f"{number}.png")
            (folder / ".hidden.png").touch()
            (folder / "notes.txt").touch()
    (root / "own").mkdir()
    (root / "Snakefile").touch()


def load(text=TEXT, change=None, name="photos", **config):
    """Load the configuration with a file of ``text``, or of what ``change`` makes of it."""
    content = yaml.safe_load(text)
    if change is not None:
        change(content)
    Path("own", f"{name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    asked = {"scale": "preview", "tables": [], "figures": [], "folders": ["own"], **config}
    return plan.load(ROOT, asked)


def refusal(text=TEXT, change=None, **config):
    """Return the message that a file is refused with."""
    with pytest.raises(ConfigError) as caught:
        load(text, change, **config)
    return str(caught.value)


def put(*path, value):
    """Return a function that sets the value at ``path`` of a file's content, or takes it away where it is None."""

    def change(content):
        *way, last = path
        for key in way:
            content = content[key]
        if value is None:
            del content[last]
        else:
            content[last] = value

    return change
