"""Makes docs/report.png: the report of the preview as Chromium shows it (`make report-page`).

The picture holds the digest of what it shows, so that a test can tell when it is older.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from flatfed import experiment, forms
from flatfed.figures import gallery
from flatfed.files import digest_json
from flatfed.tables.page_templates import TEMPLATES

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs/report.png"
REPORT = ROOT / "results/preview/report.html"

#: Pixels: the window, and colours of the palette.
WIDTH, HEIGHT, COLOURS = 1400, 2200, 200


def shows() -> str:
    """Return the digest of what the report of the preview shows: its specification and its templates."""
    pages = [path for path in sorted(TEMPLATES.glob("*")) if not path.name.endswith(".md.j2")]
    templates = [hashlib.sha256(path.read_bytes()).hexdigest() for path in pages]
    return digest_json([forms.plain(experiment.load(ROOT).report_spec("preview")), templates])


def main() -> None:
    """Open the report in Chromium, take its picture."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None or not REPORT.is_file():
        sys.exit(f"{REPORT.relative_to(ROOT)} and Chromium are needed: make quickstart; apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        shot = Path(folder, "shot.png")
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--screenshot={shot}"]
        command += [f"--window-size={WIDTH},{HEIGHT}", f"--user-data-dir={folder}/profile", f"file://{REPORT}"]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        page = Image.open(io.BytesIO(shot.read_bytes())).convert("RGB")
    gallery.save(page, PICTURE, shows(), COLOURS)


if __name__ == "__main__":
    main()
