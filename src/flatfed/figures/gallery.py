"""All figures of a folder on one picture, each under its name: what there is, at a glance."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib.font_manager
from PIL import Image, ImageDraw, ImageFont, PngImagePlugin

from flatfed.errors import DataError
from flatfed.files import write_whole

#: Pixels: the width of a figure, the space around it, and the heights of its name and of the head line.
WIDTH, SPACE, NAME, HEAD = 760, 26, 30, 60

#: Key of a text in the PNG file. In a figure the text is the digest of the specification that it was drawn from; in the
#: page of all figures it is JSON, name of a figure -> its digest.
MADE_OF = "flatfed"

COLUMNS = 3
COLOURS = 160  # of the palette: lines and letters keep their colours, and 28 figures fit into 2 MB


def make(folder: str | Path, out: str | Path, head: str = "") -> None:
    """Write one PNG with every PNG of ``folder``, in the order of their names, to ``out``, whole.

    The digests of what its figures are drawn from are in the file (:data:`MADE_OF`), so that an outdated page can be
    recognised. Each figure goes under the shortest column so far; ``head`` is a line of text above all of them.

    :raises DataError: the folder holds no PNG, or one that cannot be read.
    """
    paths = sorted(Path(folder).glob("*.png"), key=_order)
    if not paths:
        raise DataError(f"{folder}: no figures (*.png); `snakemake --cores all everything` makes them")
    top = HEAD if head else SPACE
    heights = [top] * COLUMNS
    placed, drawn = [], {}
    for path in paths:
        picture, drawn[path.stem] = _read(path)
        column = heights.index(min(heights))
        placed.append((path.stem, picture, SPACE + column * (WIDTH + SPACE), heights[column]))
        heights[column] += NAME + picture.height + SPACE
    page = Image.new("RGB", (SPACE + COLUMNS * (WIDTH + SPACE), max(heights)), "white")
    draw = ImageDraw.Draw(page)
    draw.text((SPACE, HEAD // 3), head, fill="black", font=_font("normal", 22))
    for name, picture, left, height in placed:
        draw.text((left, height), name, fill="black", font=_font("bold", 19))
        page.paste(picture, (left, height + NAME))
    save(page, out, json.dumps(drawn, sort_keys=True), COLOURS)


def save(page: Image.Image, out: str | Path, made_of: str, colours: int) -> None:
    """Write a picture in so many ``colours`` to ``out``, whole; ``made_of`` is the text under :data:`MADE_OF` in it."""
    about = PngImagePlugin.PngInfo()
    about.add_text(MADE_OF, made_of)
    with write_whole(out) as file:
        page.quantize(colours, dither=Image.Dither.NONE).save(file, format="png", optimize=True, pnginfo=about)


def drawn_from(path: str | Path) -> str | None:
    """Return the text under :data:`MADE_OF` in a picture, None where there is none."""
    with Image.open(path) as file:
        return file.info.get(MADE_OF)


def _order(path: Path) -> tuple[str, int, str]:
    """Sort F2 before F10."""
    paper, _, number = path.stem.partition("_F")
    digits = "".join(letter for letter in number if letter.isdigit())
    return paper, int(digits or 0), number


def _read(path: Path) -> tuple[Image.Image, str | None]:
    """Return the picture on white, ``WIDTH`` wide, and what it was drawn from."""
    try:
        with Image.open(path) as file:
            picture, made_of = file.convert("RGBA"), file.info.get(MADE_OF)
    except (OSError, SyntaxError) as problem:
        raise DataError(f"{path}: not a picture ({problem})") from None
    white = Image.new("RGBA", picture.size, "white")
    height = round(picture.height * WIDTH / picture.width)
    page = Image.alpha_composite(white, picture).convert("RGB")
    return page.resize((WIDTH, height), Image.Resampling.LANCZOS), made_of


def _font(weight: str, size: int) -> ImageFont.FreeTypeFont:
    """Return the font that matplotlib brings along, so that the page looks the same on every machine."""
    return ImageFont.truetype(
        matplotlib.font_manager.findfont(matplotlib.font_manager.FontProperties(family="DejaVu Sans", weight=weight)),
        size,
    )
