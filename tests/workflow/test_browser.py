"""The report as a reader sees it: opened in headless Chromium, tables and pictures are really there."""

import csv
import html
import json
import re
import shutil
import subprocess

import pytest
import yaml
from project import COLUMN, ROWS, SPLIT, TABLE, Project

from samples import full

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(not BROWSER, reason="no Chromium on this machine (Debian: apt-get install chromium)")

CURVES, MAP, SURFACE = "fedsmoo2023_F7", "fedsmoo2023_F5", "around"

#: What a page says of itself, again and again as it is drawn: what has really a size, a size of its own, or ink.
SEEN = """<script>
addEventListener("load", () => {
  document.querySelectorAll("details").forEach(one => one.open = true);
  setInterval(look, 1000);
});
function look() {
  const all = selector => [...document.querySelectorAll(selector)];
  const wide = document.documentElement;
  const seen = {
    tables: all("figure.table").map(one => [one.id, one.getBoundingClientRect().height]),
    cells: all("figure.table td.ours").filter(one => one.offsetWidth).map(one => one.innerText),
    images: Object.fromEntries(all("img").map(one => [one.closest("figure").id, [one.naturalWidth, one.width]])),
    small: small(),
    sorted: sorted(),
    opened: opened(),
    curves: curves(),
    switch: switched(),
    broken: all("a[href^='#']").filter(one => !document.getElementById(decodeURIComponent(one.hash.slice(1)))).length,
    over: wide.scrollWidth - wide.clientWidth,
    text: document.body.innerText,
  };
  document.body.dataset.seen = JSON.stringify(seen);
}
// The page in a window of 400 pixels: what lies beyond it, and where the first column is when the rest is moved.
function small() {
  let frame = document.querySelector("#small");
  if (!frame) {
    frame = document.createElement("iframe");
    frame.id = "small";
    frame.style.cssText = "width: 400px; height: 800px; border: 0";
    frame.srcdoc = document.documentElement.outerHTML.replace(/<script(?! type)[^]*?<[/]script>/g, "");
    document.body.append(frame);
    return null;
  }
  const page = frame.contentDocument, wide = page.documentElement, table = page.querySelector("figure.table .scroll");
  if (!table) return null;
  table.style.width = "60px"; // this table has one column; others are wider than the window
  table.scrollLeft = 60;
  const left = (selector) => table.querySelector(selector).getBoundingClientRect().left;
  return [wide.scrollWidth - wide.clientWidth, table.scrollLeft, left("tbody th") - table.getBoundingClientRect().left];
}
// The first column of numbers before, and after its head is chosen once, twice, and after that of the first column.
function sorted() {
  const table = document.querySelector("figure.table table");
  const read = () => [...table.tBodies[0].rows].map(row => parseFloat(row.cells[1].innerText));
  const number = table.tHead.querySelector("th.under"), found = [read()];
  for (const head of [number, number, table.tHead.querySelector("th.row-header")]) { head.click(); found.push(read()); }
  number.removeAttribute("aria-sort");
  return found;
}
// The lines of the drawn plot, by name, and the effect of a click on a name.
function curves() {
  const [plot] = Bokeh.documents[0].roots(), [legend] = plot.below.filter(one => one.type == "Legend");
  const lines = plot.renderers.filter(one => one.visible && one.type == "GlyphRenderer").map(one => one.name);
  return [lines, legend.items.map(one => one.label.value), legend.click_policy];
}
// How the paper's number is shown before and after the switch is set.
function switched() {
  const box = document.querySelector("#show-paper"), cell = document.querySelector("td.ours[data-paper]");
  const read = () => getComputedStyle(cell, "::after").display;
  const found = [read()];
  box.checked = true;
  found.push(read());
  box.checked = false;
  return found;
}
// Whether the run that the first number leads to is there, and opens.
function opened() {
  const link = document.querySelector("figure.table td.ours a");
  const run = document.getElementById(decodeURIComponent(link.hash.slice(1)));
  run.open = false;
  location.hash = "";
  location.hash = link.hash;
  dispatchEvent(new HashChangeEvent("hashchange"));
  return [run.open, link.parentElement.title];
}
</script>"""


def chromium(folder, *arguments):
    """Call Chromium with a profile of its own in ``folder``; return what it prints."""
    command = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command += ["--hide-scrollbars", "--window-size=1300,1700", "--virtual-time-budget=20000"]
    command += [f"--user-data-dir={folder / 'profile'}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.fixture(scope="module")
def pictured(trained, tmp_path_factory):
    """The trained project with a figure of curves, one of a partition and one of a surface in its report."""
    project: Project = trained.clone(tmp_path_factory.mktemp("pictured"))
    project.edit_yaml("config/config.yaml", lambda config: config.update(figures=[CURVES, MAP, SURFACE]))
    project.edit_yaml(f"config/figures/{CURVES}.yaml", lambda figure: figure.update(splits=[SPLIT], rows=ROWS))
    (project.root / f"config/figures/{SURFACE}.yaml").write_text(
        yaml.safe_dump(
            {"kind": "surface", "title": "Around FedSMOO", "paper": "none", "protocol": "fedsmoo-cifar10",
             "panels": [{"title": "FedSMOO", "split": SPLIT, "rows": ["fedsmoo"]}]}
        )
    )  # fmt: skip
    project.edit_yaml(
        "config/protocols/fedsmoo-cifar10.yaml",
        lambda protocol: protocol["preview"].update(analysis={"surface": {"grid": 5, "images": 50}}),
    )
    project.make()
    return project


def test_tables_and_pictures_are_really_there(pictured, tmp_path):
    page = (pictured.root / "results/preview/report.html").read_text()
    (tmp_path / "seen.html").write_text(page.replace("</body>", SEEN + "</body>"))
    for _ in range(6):  # the browser's own clock can run out before its first frame is drawn
        dom = chromium(tmp_path, "--dump-dom", f"file://{tmp_path}/seen.html")
        seen = json.loads(html.unescape(re.search(r'data-seen="([^"]*)"', dom)[1]))
        if seen["small"]:
            break
    ((table, height),) = seen["tables"]
    assert table == TABLE and height > 100
    with (pictured.root / f"results/preview/tables/{TABLE}.csv").open(newline="") as file:
        lines = {line["row"]: line for line in csv.DictReader(file) if line["column"] == COLUMN}
    values = [f"{100 * float(lines[row]['value']):.2f}" for row in ROWS]
    assert seen["cells"] == values, "each row's number, as its cell has it"
    assert set(seen["images"]) == {f"figure-{name}" for name in (CURVES, MAP, SURFACE)}
    assert all(natural > 800 and shown > 400 for natural, shown in seen["images"].values())
    assert seen["broken"] == 0 and seen["over"] <= 0, "every link has its place, and nothing lies beyond the window"
    for said in (
        "Preview scale.",
        "4 ok",
        "4 finished",
        "Errata of the four papers",
        "seeds:",
        "torch ",
        "Trained",
        "FlatFed",
    ):
        assert said in seen["text"], said
    over, moved, first = seen["small"]
    assert over <= 0 and moved == 60 and abs(first) < 1, "at 400 pixels nothing is wider, and the first column stays"
    printed, falling, rising, again = seen["sorted"]
    assert falling == sorted(printed, reverse=True) and rising == sorted(printed) and again == printed
    assert printed == [float(value) for value in values]
    assert seen["opened"] == [True, f"seed 1: {values[0]}"]
    lines, names, click = seen["curves"]
    assert [name.lower() for name in lines] == ROWS and names == lines, "a line and a name for each row"
    assert click == "hide"
    hidden, shown = seen["switch"]
    assert hidden == "none" and shown == "block", "the switch shows the paper's numbers"
    assert len(page.encode()) < 5e6
    for address in set(re.findall(r'href="([^"#]+)"', page)):
        assert (pictured.root / "results/preview" / address).resolve().is_file(), address


@full
def test_snakemakes_own_report_shows_its_categories(pictured, tmp_path):
    pictured.make("--report", str(tmp_path / "report.html"))
    dom = chromium(tmp_path, "--dump-dom", f"file://{tmp_path}/report.html")
    shown = re.sub(r"<script.*?</script>", "", dom, flags=re.S)
    for category in ("Tables", "Figures", "Report", "Errata"):
        assert f">{category}<" in shown, category
    packed = (tmp_path / "report.html").read_text()
    assert all(f"{name}.png" in packed for name in (CURVES, MAP, SURFACE))
