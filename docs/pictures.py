"""Makes the pictures of the docs: a page of all figures, and the report of the preview as Chromium shows it.

    python docs/pictures.py figures    # docs/figures.md and docs/figures/ (`make figures-page`)
    python docs/pictures.py report     # docs/report.png (`make report-page`)

The page of figures names its commit.
"""

from __future__ import annotations

import argparse
import io
import itertools
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from flatfed.errors import DataError
from flatfed.files import write_whole

ROOT = Path(__file__).resolve().parents[1]
FIGURES, REPORT = ROOT / "docs/figures.md", ROOT / "docs/report.png"

#: Pixels of a figure's width, and of its thumbnail's; a row of the page has so many thumbnails.
WIDTH, THUMBNAIL, COLUMNS = 760, 260, 3

#: Text above the thumbnails.
HEAD = """All figures at {scale} scale, drawn at commit {commit}. Click a figure to see it in full. The .txt next to
a figure names its data, seeds and missing runs. `snakemake --cores all everything`, then `make figures-page`, redraws
the page."""

#: Pixels of the window in which the report is shown.
WINDOW = (1400, 760)


def figures(folder: Path, page: Path, head: str = "") -> None:
    """Write a Markdown ``page`` of thumbnails, paper by paper, that link to the PNGs of ``folder``, ``WIDTH`` wide.

    The pictures go into the folder next to the page that has its name, in place of those that are there. ``head`` is
    the text above the thumbnails.

    :raises DataError: the folder holds no PNG, or one that cannot be read.
    """
    paths = sorted(folder.glob("*.png"), key=_order)
    if not paths:
        raise DataError(f"{folder}: no figures (*.png); `snakemake --cores all everything` makes them")
    drawn = {path.stem: _read(path) for path in paths}
    pictures = page.with_suffix("")
    for path in pictures.glob("*.png"):
        path.unlink()
    lines = ["# Figures", "", head]
    for paper, names in itertools.groupby(drawn, key=lambda name: name.partition("_F")[0]):
        lines += ["", f"## {paper}", "", "| " * COLUMNS + "|", "| --- " * COLUMNS + "|"]
        cells = [_thumbnail(f"{pictures.name}/{name}.png", name) for name in names]
        lines += [f"| {' | '.join(cells[start : start + COLUMNS])} |" for start in range(0, len(cells), COLUMNS)]
    for name, picture in drawn.items():
        _save(picture, pictures / f"{name}.png")
    with write_whole(page, "w") as file:
        file.write("\n".join(lines) + "\n")


def _thumbnail(address: str, name: str) -> str:
    return f'[<img src="{address}" alt="{name}" width="{THUMBNAIL}">]({address})<br>{name}'


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
    _save(shown, out)


def _save(page: Image.Image, out: Path) -> None:
    """Write a picture with a palette of 256 colours to ``out``; the octree keeps the colours of thin lines."""
    with write_whole(out) as file:
        coloured = page.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        coloured.save(file, format="png", optimize=True)


def _order(path: Path) -> tuple[str, int, str]:
    """Sort F2 before F10."""
    paper, _, number = path.stem.partition("_F")
    digits = "".join(letter for letter in number if letter.isdigit())
    return paper, int(digits or 0), number


def _read(path: Path) -> Image.Image:
    """Return the picture on white, ``WIDTH`` wide."""
    try:
        with Image.open(path) as file:
            picture = file.convert("RGBA")
    except (OSError, SyntaxError) as problem:
        raise DataError(f"{path}: not a picture ({problem})") from None
    white = Image.new("RGBA", picture.size, "white")
    height = round(picture.height * WIDTH / picture.width)
    page = Image.alpha_composite(white, picture).convert("RGB")
    return page.resize((WIDTH, height), Image.Resampling.LANCZOS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", choices=("figures", "report"))
    parser.add_argument("--scale", default="preview", choices=("preview", "paper"), help="whose figures")
    options = parser.parse_args()
    if options.picture == "report":
        return report(ROOT / "results/preview/report.html", REPORT)
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True).strip()
    head = HEAD.format(scale=options.scale, commit=commit)
    try:
        return figures(ROOT / "results" / options.scale / "figures", FIGURES, head)
    except DataError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
