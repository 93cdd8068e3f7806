"""Makes two pictures of the docs: all figures on one page, and the report of the preview as Chromium shows it.

    python docs/pictures.py figures    # docs/figures.png (`make figures-page`)
    python docs/pictures.py report     # docs/report.png (`make report-page`)

Each picture holds the digests of what it shows, so that a test can tell when it is older.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.font_manager
from PIL import Image, ImageDraw, ImageFont, PngImagePlugin

from flatfed import experiment, forms
from flatfed.errors import DataError
from flatfed.figures import MADE_OF
from flatfed.files import digest_json, write_whole
from flatfed.tables.page_templates import TEMPLATES

ROOT = Path(__file__).resolve().parents[1]
FIGURES, REPORT = ROOT / "docs/figures.png", ROOT / "docs/report.png"

#: Pixels of the page of figures: how wide a figure is, the space around it, how high its name and the head line are.
WIDTH, SPACE, NAME, HEAD = 760, 26, 30, 60
COLUMNS = 3

#: Pixels of the window in which the report is shown.
WINDOW = (1400, 2200)

#: Colours of a picture's palette: lines and letters keep theirs, and 28 figures fit into 2 MB.
COLOURS = {"figures": 160, "report": 200}


def figures(folder: Path, out: Path, head: str = "") -> None:
    """Write one PNG with every PNG of ``folder``, each under its name, in the order of the papers, to ``out``, whole.

    Each figure goes under the shortest column so far; ``head`` is a line of text above all of them.

    :raises DataError: the folder holds no PNG, or one that cannot be read.
    """
    paths = sorted(folder.glob("*.png"), key=_order)
    if not paths:
        raise DataError(f"{folder}: no figures (*.png); `snakemake --cores all everything` makes them")
    heights = [HEAD if head else SPACE] * COLUMNS
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
    _save(page, out, json.dumps(drawn, sort_keys=True), COLOURS["figures"])


def report(page: Path, out: Path) -> None:
    """Open the report ``page`` in Chromium and write what it shows to ``out``."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None or not page.is_file():
        sys.exit(f"{page} and Chromium are needed: make quickstart; apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        shot = Path(folder, "shot.png")
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--screenshot={shot}"]
        command += ["--window-size={},{}".format(*WINDOW), f"--user-data-dir={folder}/profile", f"file://{page}"]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        shown = Image.open(io.BytesIO(shot.read_bytes())).convert("RGB")
    _save(shown, out, report_shows(), COLOURS["report"])


def report_shows() -> str:
    """Return the digest of what the report of the preview shows: its specification and its templates."""
    pages = [path for path in sorted(TEMPLATES.glob("*")) if not path.name.endswith(".md.j2")]
    templates = [hashlib.sha256(path.read_bytes()).hexdigest() for path in pages]
    return digest_json([forms.plain(experiment.load(ROOT).report_spec("preview")), templates])


def drawn_from(path: Path) -> str | None:
    """Return what a picture says it was drawn from, None where it says nothing.

    In a figure and in the report's picture it is a digest, in the page of figures JSON, name of a figure -> its digest.
    """
    with Image.open(path) as file:
        return file.info.get(MADE_OF)


def _save(page: Image.Image, out: Path, made_of: str, colours: int) -> None:
    """Write a picture in so many ``colours`` to ``out``, whole, and in it what it was drawn from."""
    about = PngImagePlugin.PngInfo()
    about.add_text(MADE_OF, made_of)
    with write_whole(out) as file:
        page.quantize(colours, dither=Image.Dither.NONE).save(file, format="png", optimize=True, pnginfo=about)


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
    properties = matplotlib.font_manager.FontProperties(family="DejaVu Sans", weight=weight)
    return ImageFont.truetype(matplotlib.font_manager.findfont(properties), size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", choices=("figures", "report"))
    parser.add_argument("--scale", default="preview", choices=("preview", "paper"), help="whose figures")
    options = parser.parse_args()
    if options.picture == "report":
        return report(ROOT / "results/preview/report.html", REPORT)
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True).strip()
    head = f"FlatFed, {options.scale} scale, drawn at commit {commit}; seeds and what is missing as each foot says"
    try:
        return figures(ROOT / "results" / options.scale / "figures", FIGURES, head)
    except DataError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
