"""The report as a reader sees it, in headless Chromium: tables and pictures."""

import html
import json
import re
import shutil
import subprocess

import pytest

from samples import full
from small_results import flatfed, runs

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(not BROWSER, reason="no Chromium on this machine (Debian: apt-get install chromium)")

TABLE, FIGURES = "accuracy", ("curves", "partition", "surface")

#: The page writes into itself, once a second, what it shows.
SEEN = """<script>
const all = (selector, page = document) => [...page.querySelectorAll(selector)];
addEventListener("load", () => {
  all("details").forEach(details => details.open = true);
  setInterval(() => { document.body.dataset.seen = JSON.stringify(look()); }, 1000);
});
function look() {
  const page = document.documentElement;
  return {
    tables: all("figure.table").map(table => [table.id, table.getBoundingClientRect().height > 100]),
    cells: all("figure.table td.ours").filter(cell => cell.offsetWidth).map(cell => cell.innerText),
    images: all("img").map(image => [image.closest("figure").id, image.naturalWidth > 800 && image.width > 400]),
    broken: all("a[href^='#']").filter(a => !document.getElementById(decodeURIComponent(a.hash.slice(1)))).length,
    beyond: page.scrollWidth - page.clientWidth,
    links: all("figure.table td.ours a").map(link => [link.hash, link.title]),
    text: document.body.innerText,
  };
}
</script>"""


def chromium(folder, page):
    """Return the page as Chromium holds it."""
    command = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command += ["--hide-scrollbars", "--window-size=1300,1700", "--virtual-time-budget=20000"]
    command += [f"--user-data-dir={folder / 'profile'}", "--dump-dom", f"file://{page}"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


@full
def test_tables_and_pictures_are_really_there(small_project, tmp_path):
    for row, finals in (("fedavg", (0.5, 0.7)), ("fedsam", (0.9, 0.8)), ("fedsmoo~s", (0.75, 0.75))):
        for split in ("dir0.6", "path2"):
            runs(f"small/{split}/{row}", finals, "preview")
    folder = small_project / "results/preview"
    for kind, name in (("table", TABLE), *(("figure", figure) for figure in FIGURES)):
        flatfed(kind, name, "--scale", "preview", "--out", folder / f"{kind}s")
    config = ("--config", f"tables=[{TABLE}]", "--config", f"figures=[{', '.join(FIGURES)}]")
    flatfed("report", "--scale", "preview", *config, "--out", folder / "report.html")
    page = (folder / "report.html").read_text()
    (tmp_path / "seen.html").write_text(page.replace("</body>", SEEN + "</body>"))
    seen = re.search(r'data-seen="([^"]*)"', chromium(tmp_path, tmp_path / "seen.html"))
    seen = json.loads(html.unescape(seen[1]))
    text, links = seen.pop("text"), seen.pop("links")
    means = [cell for mean in ("60.00 ± 14.14", "85.00 ± 7.07", "75.00 ± 0.00") for cell in (mean, mean, "")]
    assert seen == {
        "tables": [[TABLE, True]],
        "cells": means,
        "images": [[f"figure-{name}", True] for name in FIGURES],
        **{"broken": 0, "beyond": 0},
    }
    assert links[0] == ["#run/small/dir0.6/fedavg/seed1", "seed 1: 50.00, seed 2: 70.00"]
    for words in ("Preview scale.", "6 ok, 3 missing", "14 finished", "torch 2.14"):
        assert words in text
    assert len(page.encode()) < 5e6
    for address in set(re.findall(r'href="([^"#]+)"', page)):
        assert (folder / address).resolve().is_file(), address


@full
def test_snakemakes_own_report_shows_its_categories(project, tmp_path):
    project.edit_yaml("config/config.yaml", lambda config: config.update(figures=["fedsmoo2023_F5"]))
    project.make()
    project.make("--report", str(tmp_path / "report.html"))
    shown = re.sub(r"<script.*?</script>", "", chromium(tmp_path, tmp_path / "report.html"), flags=re.S)
    assert all(f">{category}<" in shown for category in ("Tables", "Figures", "Report"))
    assert "fedsmoo2023_F5.png" in (tmp_path / "report.html").read_text()
