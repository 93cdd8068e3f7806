"""Tables in four formats, from cells written by hand."""

from __future__ import annotations

import csv
import html.parser
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from flatfed.tables import blocks, headers, write
from flatfed.tables.blocks import TypesetTable
from flatfed.tables.formats import latex, markdown
from made import filled, layout


def make_cell(folder: Path, column: str, row: str, **changes) -> None:
    """Write a cell: accuracy 0.8108 +- 0.0012 over two seeds, printed 79.52 +- .13."""
    cell = {
        "table": "fedsmoo2023_T1", "column": column, "row": row, "scale": "paper", "metric": "test_accuracy",
        "unit": "fraction", "printed_unit": "percent", "relative": None, "base": None, "compare": "values",
        "status": "ok", "value": 0.8108, "spread": 0.0012, "spread_kind": "seeds", "n": 2,
        "values": [0.81, 0.8116], "best": [0.82, 0.83], "reached": None, "target": None, "window": 1, "rounds": 800,
        "seeds": [1, 2], "runs": ["a", "b"], "base_runs": [], "paper_value": 0.7952, "paper_spread": 0.0013,
        "paper_decimals": None, "paper_note": "", "difference": 0.0156, "problems": [],
    }  # fmt: skip
    path = folder / column / f"{row}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**cell, **changes}))


def specify(cells: Path, **changes) -> TypesetTable:
    """Return a table of two rows and three columns with the ``cells`` of a folder."""
    spec = {
        "table": "fedsmoo2023_T1",
        "scale": "paper",
        "title": "Test accuracy after 800 rounds",
        "paper": "Sun et al., ICML 2023, Table 1",
        "setting": "ResNet-18-GN, batch 50",
        "metric": "Test accuracy",
        "unit": "percent",
        "rows": [{"id": "fedavg", "label": "FedAvg"}, {"id": "mine_1", "label": "Mine_1 & <co> 5%"}],
        "columns": [
            {"id": "dir0.6-100", "headers": ["CIFAR-10", "Dirichlet", "u = 0.6"], "part": "10% of 100"},
            {"id": "dir0.1-100", "headers": ["CIFAR-10", "Dirichlet", "u = 0.1"], "part": "10% of 100"},
            {"id": "path3-100", "headers": ["CIFAR-10", "Pathological", "c = 3"], "part": "10% of 100"},
        ],
        "notes": ["The paper's ± is over 2 repeats."],
    }
    return blocks.typeset(filled(cells, layout(**{**spec, **changes})))


@pytest.fixture
def made(tmp_path):
    """All four files of a table with a missing cell, a diverged one, a flagged one and one over three seeds."""
    cells = tmp_path / "cells" / "fedsmoo2023_T1"
    for row in ("fedavg", "mine_1"):
        make_cell(cells, "dir0.6-100", row)
    make_cell(cells, "dir0.1-100", "fedavg", status="diverged", value=None, spread=None, difference=None)
    make_cell(cells, "path3-100", "fedavg", paper_note="flag:B1; flag:B12", n=3, difference=-0.00004)
    make_cell(cells, "path3-100", "mine_1", paper_value=None, paper_spread=None, difference=None)
    write.make(specify(cells, flags={"B1": "printed twice"}), tmp_path / "tables")
    return {path.suffix[1:]: path.read_text() for path in (tmp_path / "tables").iterdir()}


def column(**content):
    return layout(table="t", scale="paper", title="", metric="", unit="", rows=[], columns=[content]).columns[0]


def test_a_part_too_wide_for_a_page_is_cut_between_metrics_and_only_there():
    """FedLESAM, Table 5: one split, six metrics at two targets each, are three blocks of four; six domains are one."""
    names = [(metric, how) for metric in ("rounds", "cost", "time") for how in (None, "ratio")]
    many = [column(id=str(how), metric=metric, headers=["C"]) for metric, how in names for _ in range(2)]
    cut = [[column.metric for column in columns] for _, columns in headers.split(many)]
    assert cut == [4 * ["rounds"], 4 * ["cost"], 4 * ["time"]]
    domains = [column(id="", metric="test_accuracy", headers=["DomainNet", str(n)]) for n in range(6)]
    assert [len(columns) for _, columns in headers.split(domains)] == [6]
    five = [column(id="", metric=str(number), headers=["C"]) for number in range(5)]
    assert [len(columns) for _, columns in headers.split(five)] == [5]


def test_notes_say_how_far_times_can_be_trusted(tmp_path):
    clock = {"metric": "total_seconds", "unit": "seconds", "printed_unit": "s", "target": 0.7, "value": 3.0}
    columns = [{"id": "x", "headers": ["CIFAR-10"], "metric": "total_seconds"}]
    make_cell(tmp_path / "cells", "x", "fedavg", **clock, warnings=["t.json: the machine was busy"])
    make_cell(tmp_path / "cells", "x", "mine_1", **clock)
    notes = " ".join(specify(tmp_path / "cells", columns=columns, unit="s").notes)
    assert "the deviation of a time is that of its number of rounds" in notes
    assert "In 1 of 2 cells with times the machine was busy" in notes
    make_cell(tmp_path / "cells", "x", "fedavg", **clock, warnings=[])
    assert "busy" not in " ".join(specify(tmp_path / "cells", columns=columns, unit="s").notes)


def test_the_evaluations_in_a_mean_are_stated_for_each_column_if_they_differ(tmp_path):
    columns = [{"id": name, "headers": ["CIFAR-10", name]} for name in ("x", "y", "z")]
    for same, expected in (
        (1, "Test accuracy in percent, final round. Ours:"),
        (3, "Test accuracy in percent, mean over the last 3 evaluated rounds. Ours:"),
        (None, "percent: final round in CIFAR-10, x and CIFAR-10, z; mean over the last 3 evaluated rounds in "),
    ):
        for name, window in (("x", 1), ("y", 3), ("z", 1)):
            for row in ("fedavg", "mine_1"):
                make_cell(tmp_path / "cells", name, row, window=same or window)
        assert expected in specify(tmp_path / "cells", columns=columns).notes[0]


def test_csv_has_every_cell_with_every_field_in_stored_units(made):
    lines = list(csv.DictReader(made["csv"].splitlines()))
    assert len(lines) == 6
    first = lines[0]
    assert (first["row"], first["column"], first["headers"]) == (
        "fedavg",
        "dir0.6-100",
        "CIFAR-10 / Dirichlet / u = 0.6",
    )
    assert (first["value"], first["paper_value"], first["difference"], first["n"]) == (
        "0.8108",
        "0.7952",
        "0.0156",
        "2",
    )
    assert (first["values"], first["seeds"]) == ("0.81;0.8116", "1;2")
    missing = next(line for line in lines if line["row"] == "mine_1" and line["column"] == "dir0.1-100")
    assert missing["status"] == "missing" and missing["value"] == ""


def test_markdown_sets_ours_beside_the_paper(made):
    lines = made["md"].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| FedAvg")]
    assert rows[0][:4] == ["FedAvg", "81.08 ± 0.12", "79.52 ± 0.13", "+1.56"]
    assert rows[0][4:7] == ["diverged", "79.52 ± 0.13", ""]
    assert rows[0][7:] == ["81.08 ± 0.12 (3)", "79.52 ± 0.13 <sup>B1,B12</sup>", "+0.00"]
    widths = {len(line) for line in lines if line.startswith("|")}
    assert len(widths) == 1, "the source is aligned"
    assert "Dirichlet, u = 0.6<br>ours (n = 2)" in made["md"]
    assert r"Mine\_1 & \<co> 5%" in made["md"]
    assert "**10% of 100, CIFAR-10**" in made["md"]


def test_notes_count_what_is_missing_and_explain_flags(made):
    for text in (made["md"], made["html"]):
        assert "Of 6 cells: 1 missing, 1 diverged" in text
        assert "B1: printed twice" in text and "B12: a discrepancy in the paper." in text
    assert "mean ± sample standard deviation over 2 seeds" in made["md"]
    assert "final round" in made["md"] and "in percentage points" in made["md"]


def test_latex_is_one_bare_tabular_with_equal_rows(made):
    text = made["tex"]
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1
    assert all(line.startswith("%") for line in text[: text.index(r"\begin{tabular}")].splitlines())
    assert text.count("{") == text.count("}")
    for name in (r"\toprule", r"\midrule", r"\bottomrule"):
        assert name in text
    for line in text.splitlines():
        if line.endswith(r"\\"):
            spans = [int(n) for n in re.findall(r"\\multicolumn\{(\d+)\}", line)]
            cells = len(re.findall(r"(?<!\\)&", line)) + 1
            assert cells - len(spans) + sum(spans) == 10, line
    assert r"Mine\_1 \& $<$co$>$ 5\%" in text
    assert r"81.08 $\pm$ 0.12 & 79.52 $\pm$ 0.13 & +1.56" in text


def test_quotes_of_latex_open_and_close(tmp_path):
    make_cell(tmp_path / "cells", "c", "fedavg")
    notes = ["Claims \"A beats B\" of 'paper', the papers' own ('x')."]
    columns = [{"id": "c", "headers": ["C"], "part": None}]
    write.make(specify(tmp_path / "cells", columns=columns, notes=notes), tmp_path)
    assert "Claims ``A beats B'' of `paper', the papers' own (`x')." in (tmp_path / "fedsmoo2023_T1.tex").read_text()


def test_csv_has_the_digits_that_are_meant(tmp_path):
    make_cell(
        tmp_path / "cells", "c", "fedavg", value=0.1 + 0.2, values=[0.1 + 0.2, 1 / 3], spread=None, difference=-2e-17
    )
    write.make(specify(tmp_path / "cells", columns=[{"id": "c", "headers": ["C"], "part": None}]), tmp_path)
    line, *_ = csv.DictReader((tmp_path / "fedsmoo2023_T1.csv").read_text().splitlines())
    assert (line["value"], line["values"], line["spread"]) == ("0.3", "0.3;0.333333333333", "")


def test_latex_compiles(made, tmp_path):
    if not shutil.which("pdflatex"):
        pytest.skip("no LaTeX on this machine (Debian: apt-get install texlive-latex-recommended)")
    (tmp_path / "table.tex").write_text(made["tex"])
    document = (
        r"\documentclass{article}\usepackage[T1]{fontenc}\usepackage{booktabs}\begin{document}\scriptsize\noindent"
    )
    (tmp_path / "doc.tex").write_text(document + r"\input{table.tex}\end{document}")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "doc.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]


class Balanced(html.parser.HTMLParser):
    """Checks that tags nest, and counts them."""

    VOID = frozenset({"meta", "img", "br", "link"})

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text = [], [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_html_nests_escapes_and_fetches_nothing(made):
    page = Balanced()
    page.feed(made["html"])
    assert page.open == []
    assert "Mine_1 & <co> 5%" in page.text, "escaped once, not twice"
    assert not [attrs for _, attrs in page.seen if {"src", "href"} & set(attrs)]
    assert sum(tag == "td" for tag, _ in page.seen) == 2 * 3 * 3


def test_preview_says_so_in_its_title_and_has_no_difference(tmp_path):
    make_cell(tmp_path, "dir0.6-100", "fedavg", scale="preview", difference=None)
    write.make(specify(tmp_path, scale="preview"), tmp_path / "out")
    texts = {path.suffix: path.read_text() for path in (tmp_path / "out").iterdir()}
    for suffix in (".md", ".tex", ".html"):
        assert "Preview scale" in texts[suffix] and "diff." not in texts[suffix]
    for suffix in (".md", ".html"):
        assert "No difference is taken" in texts[suffix]
    assert "### Preview scale, not the paper's data: Test accuracy" in texts[".md"]


def test_a_table_with_no_cells_at_all_is_empty_and_counted(tmp_path):
    write.make(specify(tmp_path / "nowhere"), tmp_path / "out")
    assert "Of 6 cells: 6 missing." in (tmp_path / "out" / "fedsmoo2023_T1.md").read_text()


@pytest.mark.parametrize(("reached", "shown"), [("0/2", ">800"), ("1/2", ">800 (1/2)")], ids=["no seed", "one seed"])
def test_rounds_not_reached_are_shown_as_more_than_the_rounds(tmp_path, reached, shown):
    rounds = {
        "metric": "rounds_to_target",
        "unit": "rounds",
        "printed_unit": "rounds",
        "target": 0.8,
        "paper_spread": None,
        "difference": None,
    }
    late = {"status": "not_reached", "value": None, "spread": None, "reached": reached, "paper_value": None}
    make_cell(tmp_path, "a", "fedavg", **{**rounds, **late, "paper_note": "not reached"})
    met = {"value": 245.0, "spread": 5.66, "reached": "2/2", "paper_value": 259}
    make_cell(tmp_path, "a", "mine_1", **{**rounds, **met})
    columns = [{"id": "a", "headers": ["acc = 74%"], "part": None, "paper_target": 0.74}]
    table = specify(tmp_path, unit="rounds", columns=columns)
    (_, (late,)), (_, (met,)) = table.blocks[0].rows
    assert (late.ours, late.paper) == (shown, "–")
    assert (met.ours, met.paper) == ("245.0 ± 5.7", "259")
    assert table.blocks[0].under == ({"ours": "ours at 80% (n = 2)", "paper": "paper at 74%"},)
    assert any("not reached by every seed within 800 rounds" in note for note in table.notes)


def test_headers_merge_only_under_the_same_parent():
    columns = [column(id="", headers=names) for names in (["A", "x"], ["A", "y"], ["B", "y"], ["B"])]
    rows = headers.merge(columns)
    assert [[(header.text, header.span) for header in row] for row in rows] == [
        [("A", 2), ("B", 2)],
        [("x", 1), ("y", 1), ("y", 1), ("", 1)],
    ]


def test_wide_parts_are_cut_at_the_first_header_level():
    columns = [column(id=f"{d}{i}", headers=[d, str(i)], part=p) for p in "UV" for d in "AB" for i in range(4)]
    cut = headers.split(columns)
    assert [(part, [column.id for column in few]) for part, few in cut[:2]] == [
        ("U", ["A0", "A1", "A2", "A3"]),
        ("U", ["B0", "B1", "B2", "B3"]),
    ]
    assert [part for part, _ in cut] == ["U", "U", "V", "V"]
    assert len(headers.split(columns[:3])) == 1


def test_escaping_of_every_special_character():
    assert latex.escape(r"a_b\c ±−") == r"a\_b\textbackslash{}c $\pm$$-$"
    assert markdown.escape("a|b*c_d`") == r"a\|b\*c\_d\`"


def test_best_and_second_are_marked(tmp_path):
    """Three rows over seven seeds, each half a point below the one above it in every seed: two marks, 2/128 each."""
    rows = [{"id": name, "label": name} for name in ("a", "b", "c")]
    for place, row in enumerate(rows):
        values = [0.8 - 0.005 * place + wobble for wobble in (0.0, 0.03, 0.01, 0.0, 0.03, 0.01, 0.02)]
        seeds = list(range(1, 8))
        make_cell(tmp_path / "cells", "x", row["id"], values=values, value=sum(values) / 7, n=7, seeds=seeds)
    columns = [{"id": "x", "headers": ["X"], "part": None}]
    write.make(specify(tmp_path / "cells", rows=rows, columns=columns), tmp_path / "tables")
    made = {path.suffix[1:]: path.read_text() for path in (tmp_path / "tables").iterdir()}
    assert "**81.43 ± 0.12**" in made["md"] and "*80.93 ± 0.12* |" in made["md"] and "**80.93" not in made["md"]
    shown = dict(re.findall(r'<td class="ours ok (\w+)"[^>]*>([\d.]+)', made["html"]))
    assert shown == {"best": "81.43", "second": "80.93"}
    assert 'title="seed 1: 80.00, seed 2: 83.00, seed 3: 81.00, seed 4: 80.00' in made["html"]
    assert r" & \textbf{81.43 $\pm$ 0.12} & " in made["tex"] and r" & \underline{80.93 $\pm$ 0.12} & " in made["tex"]
    assert all("Bold: best" in made[kind] for kind in ("md", "html", "tex"))


def test_the_sum_under_a_table_of_paper_scale_says_what_agrees(tmp_path):
    """81.08 against 79.52 +- 0.13 differs; against 81.00 it agrees; both printed claims hold or not by the values."""
    make_cell(tmp_path / "cells", "x", "fedavg")
    make_cell(
        tmp_path / "cells", "x", "mine_1", paper_value=0.81, difference=0.0008, values=[0.82, 0.8216], value=0.8208
    )
    columns = [{"id": "x", "headers": ["X"], "part": None}]
    table = specify(tmp_path / "cells", columns=columns)
    assert [entries[0].agreement for _, entries in table.blocks[0].rows] == ["differs", "agrees"]
    assert "1 of 2 cells agree with the paper's within the tolerance; 1 of 1 claims held" in " ".join(table.notes)


def test_a_table_of_several_units_names_them(tmp_path):
    make_cell(tmp_path / "cells", "x", "fedavg")
    make_cell(
        tmp_path / "cells", "y", "fedavg", metric="rounds_to_target", unit="ratio", printed_unit="x", base="fedavg",
        relative="speedup", value=1.36, spread=None, paper_value=1.4, paper_spread=None, difference=-0.04,
    )  # fmt: skip
    columns = [{"id": name, "headers": [name], "part": None} for name in "xy"]
    rows = [{"id": "fedavg", "label": "FedAvg"}]
    table = specify(tmp_path / "cells", columns=columns, rows=rows)
    assert table.notes[0].startswith("Test accuracy (in percent, as a ratio, column by column), final round.")
    entry = table.blocks[0].rows[0][1][1]
    assert (entry.ours, entry.paper, entry.difference) == ("1.36", "1.40", "−0.04")
    assert any("Relative to a base row (fedavg)" in note for note in table.notes)


def test_exact_numbers_have_no_seeds_beside_them(tmp_path):
    exact = {"n": None, "spread": None, "seeds": [], "metric": "stored_memory", "unit": "ratio", "printed_unit": "x"}
    for row, value in (("fedavg", 1.0), ("mine_1", 2.0)):
        make_cell(tmp_path / "c", "x", row, **exact, value=value, values=[value], paper_value=value, difference=0.0)
    columns = [{"id": "x", "headers": ["X"], "part": None}]
    table = specify(tmp_path / "c", columns=columns, unit="x")
    assert table.blocks[0].under[0]["ours"] == "ours" and table.blocks[0].rows[1][1][0].ours == "2.00"


def test_a_papers_number_keeps_its_decimals_and_a_deviation_over_clients_stands_alone(tmp_path):
    """FedSAM, Table 1: 84.38 (4.03), the bracket over clients; FedLESAM, Table 5: 56 gigabytes, without decimals."""
    make_cell(
        tmp_path / "c", "x", "fedavg", paper_value=0.8438, paper_spread=0.0403, paper_note="std_kind=clients (4.1)"
    )
    cost = {"unit": "parameters", "printed_unit": "GB_params", "spread": None, "paper_spread": None, "difference": 1e9}
    make_cell(tmp_path / "c", "x", "mine_1", **cost, value=57e9, paper_value=56e9, paper_decimals=0)
    columns = [{"id": "x", "headers": ["X"], "part": None}]
    table = specify(tmp_path / "c", columns=columns)
    (_, (accuracy,)), (_, (bytes_,)) = table.blocks[0].rows
    assert (accuracy.ours, accuracy.paper) == ("81.08 ± 0.12", "84.38")
    assert (bytes_.ours, bytes_.paper, bytes_.difference) == ("57.0", "56", "+1.0")
    assert any("deviations are over clients" in note for note in table.notes)
