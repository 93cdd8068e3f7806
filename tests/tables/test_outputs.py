"""Tables, figures and reports of a small project (tests/small_project) equal the texts in tests/golden_output.

Their inputs are files and their calls are the commands, so that the tests do not depend on what is between.
`pytest --update-golden` writes the texts again; read the difference before you commit it.
"""

from __future__ import annotations

import html.parser
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from jinja2 import Environment, StrictUndefined
from matplotlib.figure import Figure

import drawn
import small_results
from flatfed import cli
from flatfed.config.values import UNPRINTABLE
from flatfed.plan import at_scale
from flatfed.tables import blocks
from flatfed.tables.formats import latex
from repository import ROOT
from samples import sampled
from shipped import EXP
from small_results import flatfed

#: Table -> the scales at which it is shown; the table of ``ELSEWHERE`` is of the runs in a folder, too.
TABLES = {path.stem: ["paper"] for path in sorted(small_results.PROJECT.glob("config/tables/*.yaml"))}
TABLES |= {name: ["paper", "preview"] for name in ("accuracy", "costs", "own", "two")}
ELSEWHERE = "costs"

FIGURES = sorted(path.stem for path in small_results.PROJECT.glob("config/figures/*.yaml"))
KINDS = sorted({name.partition("_")[0] for name in FIGURES})

#: Report -> its configuration and scale.
REPORTS = {
    "paper": ({}, "paper"),
    "preview": ({"tables": [{"table": "costs", "columns": ["*rounds*"]}]}, "preview"),
    "own": ({"tables": ["own"], "figures": []}, "paper"),
    "empty": ({"tables": [], "figures": []}, "paper"),
}


@pytest.fixture(scope="module")
def tables(small_project):
    """The files of all tables, in folders by scale."""
    for table, scales in TABLES.items():
        for scale in scales:
            flatfed("table", table, "--scale", scale, "--out", f"made/{scale}")
    flatfed("table", ELSEWHERE, "--runs", "elsewhere", "--so-far", "--out", "made/so-far")
    return small_project / "made"


def report(name: str, *pictures: bytes) -> str:
    """Write a report with the ``pictures`` of its first figures; return its text."""
    config, scale = REPORTS[name]
    out = Path(f"results/{scale}/report.html")
    shutil.rmtree(out.with_name("figures"), ignore_errors=True)
    for figure, picture in zip(("curves", "surface"), pictures, strict=False):
        path = out.with_name("figures") / f"{figure}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture)
    words = [word for key, value in config.items() for word in ("--config", f"{key}={json.dumps(value)}")]
    flatfed("report", "--scale", scale, *words, "--out", out)
    return out.read_text(encoding="utf-8")


def unstyled(page: str) -> str:
    return re.sub(r"<(style|script)[^>]*>.*?</\1>", r"<\1></\1>", page, flags=re.DOTALL)


@pytest.mark.parametrize("ending", ["csv", "md", "tex", "html"])
def test_tables(tables, ending, golden_output):
    paths = sorted(tables.glob(f"*/*.{ending}"))
    texts = {path.relative_to(tables): path.read_text(encoding="utf-8") for path in paths}
    if ending == "html":
        list(map(check_page, texts.values()))
    texts = {name: unstyled(text) for name, text in texts.items()}
    golden_output(f"tables.{ending}", "\n".join(f"==== {name} ====\n{text}" for name, text in texts.items()))


@pytest.mark.parametrize("kind", KINDS)
def test_figures(small_project, kind, monkeypatch, golden_output):
    """A picture differs between machines, its content does not."""
    shown = {}
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: shown.update({name: drawn.text_of(figure)}))
    for name in (name for name in FIGURES if name.partition("_")[0] == kind):
        flatfed("figure", name, "--scale", "paper", "--out", "drawn")
    golden_output(f"{kind}.txt", "\n".join(f"==== paper/{name} ====\n{text}" for name, text in shown.items()))


@pytest.mark.parametrize("name", REPORTS)
def test_reports(small_project, name, golden_output):
    text = report(name, b"\x89PNG picture")
    check_page(text)
    text = re.sub(r"<dt>FlatFed</dt><dd>[^<]*", "<dt>FlatFed</dt><dd>VERSION", text)
    golden_output(f"report-{name}.html", text if name == "paper" else unstyled(text))


def test_verification(small_project, golden_output):
    """`--strict` passes a table of which every cell agrees and every claim holds."""
    calls = [(table, "--scale", scale) for table, scales in TABLES.items() for scale in scales]
    golden_output("verify.txt", "\n".join(flatfed("verify", *call) for call in calls))
    strict = [("declared",), ("accuracy",), ("accuracy", "--scale", "preview")]
    assert [cli.main(["verify", *call, "--strict"]) for call in strict] == [0, 1, 1]


@pytest.mark.parametrize(("scale", "printed"), [("preview", False), ("paper", False), ("paper", True)])
def test_captions_of_snakemakes_report(scale, printed, golden_output):
    """Rendered as by Snakemake, with its objects' attributes."""
    texts = []
    for name, kind in (("workflow", "curves"), ("table", "results"), ("figure", "curves"), ("figure", "surface")):
        wildcards = {"scale": scale, "table": "accuracy", "figure": kind}
        params = {"caption": [kind, "digits, 30 clients"], "printed": printed}
        about = {"wildcards": wildcards, "params": params, "config": {"scale": scale}}
        text = (ROOT / f"workflow/report/{name}.rst").read_text(encoding="utf-8")
        texts.append(Environment(undefined=StrictUndefined).from_string(text).render(snakemake=about))
    golden_output(f"captions-{scale}{'' if printed else '-own'}.txt", "\n====\n".join(texts) + "\n")


class Page(html.parser.HTMLParser):
    """Checks that tags nest; ``fetched``: addresses that a browser would load; ``links``, ``ids``: of the page."""

    def __init__(self, text: str):
        super().__init__()
        self.open, self.fetched, self.links, self.ids = [], [], set(), set()
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        about = dict(attributes)
        self.ids.add(about.get("id"))
        self.fetched += [about["src"]] if not about.get("src", "data:").startswith("data:") else []
        if (address := about.get("href", "")).startswith("#"):
            self.links.add(address[1:])
        if tag not in {"meta", "img", "br", "link", "input"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def check_page(text: str) -> None:
    """Check that tags nest, that a browser loads nothing and that links lead somewhere."""
    page = Page(text)
    assert page.fetched == [] and page.links <= page.ids


def test_a_report_links_the_pictures_that_do_not_fit(small_project):
    """Base64 takes four characters for three bytes."""
    text = report("paper", *(b"\x89PNG" + bytes(size) for size in (3_000_000, 2_000_000)))
    assert len(text) < 5e6 and Page(text).fetched == ["figures/surface.png"]


@pytest.mark.parametrize("name", sampled(["curves", "partition", "surface"], ["curves"]))
def test_the_same_inputs_give_the_same_bytes(small_project, name):
    for folder in ("one", "two"):
        flatfed("figure", name, "--out", folder)
    for ending, magic in (("png", b"\x89PNG"), ("pdf", b"%PDF")):
        one, two = (Path(folder, f"{name}.{ending}").read_bytes() for folder in ("one", "two"))
        assert one == two and one.startswith(magic) and b"CreationDate" not in one


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="no LaTeX (Debian: apt-get install texlive-latex-recommended)")
def test_latex_prints_all_tables_and_all_characters_of_labels(tables, tmp_path):
    """The tables of the small project and the shipped ones, in one document with booktabs alone."""
    texts = [path.read_text(encoding="utf-8") for path in tables.glob("*/*.tex")]
    shown = (at_scale.table(EXP, "paper", name) for name in EXP.all_at("paper").tables)
    texts += [latex.render(blocks.typeset(table)) for table in shown]
    characters = [chr(code) for code in range(0x20, 0x3000) if not UNPRINTABLE.search(chr(code))]
    assert {*"aΑαΔσςϵé…∇"} <= {*characters} and "中" not in characters
    texts += [latex.escape(f"({character})") for character in characters]
    text = r"\documentclass{article}\usepackage{booktabs}\begin{document}\scriptsize" + "\n\n".join(texts)
    (tmp_path / "doc.tex").write_text(text + r"\end{document}", encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "doc.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Missing character" not in (tmp_path / "doc.log").read_text(encoding="latin-1")


def test_greek_letters_have_commands():
    assert latex.escape("Δ, σ, ς, ε, ϵ, Α") == r"$\Delta$, $\sigma$, $\varsigma$, $\varepsilon$, $\epsilon$, A"
