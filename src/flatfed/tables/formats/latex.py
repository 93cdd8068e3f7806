r"""LaTeX: one bare ``tabular`` for ``\input``, with the rules of booktabs and nothing else to load.
 Scale, blocks and notes are rows of the tabular, so that whatever box it is put into carries them along;
notes are broken into lines here, at the width of the table, because a paragraph column would need a length
that only the document knows.
"""

from __future__ import annotations

import re
import textwrap

from flatfed.tables.blocks import PARTS, TableBlock, TypesetTable

#: Character -> LaTeX that prints it in text, with any engine and no package.
SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"$<$", ">": r"$>$", "|": r"$|$",
    "±": r"$\pm$", "−": r"$-$", "–": "--", "—": "---", "×": r"$\times$", "≥": r"$\ge$", "≤": r"$\le$", "ρ": r"$\rho$",
    "α": r"$\alpha$", "β": r"$\beta$", "γ": r"$\gamma$", "η": r"$\eta$", "λ": r"$\lambda$", "…": r"\dots{}",
    "’": "'", "‘": "`", "“": "``", "”": "''", "\u00a0": "~", "√": r"$\surd$", "→": r"$\to$", "·": r"$\cdot$",
    "⚠": r"\textbf{!}", "`": r"{\textasciigrave}",
}  # fmt: skip

#: A straight quote that opens: at the start, or after a space, a bracket or another quote.
OPENS = re.compile(r"""(^|[\s(\[{"'])(["'])(?=\S)""")

#: A marked number, and the errata behind a printed one.
RANKS, RAISED = {"best": r"\textbf{{{}}}", "second": r"\underline{{{}}}"}, r"\textsuperscript{{{}}}"

#: Space between the paper's columns, and between the numbers that belong together in one.
GAP = "1.6em"
BETWEEN, WITHIN = rf"@{{\hspace{{{GAP}}}}}", r"@{\hspace{.8em}}"


def render(table: TypesetTable) -> str:
    """Return the tabular, with title and source as comments above it."""
    parts = _parts(table)
    per = len(parts)
    width = max(sum(header.span for header in block.headers[0]) for block in table.blocks) * per
    lines = [f"% {table.title}", f"% {table.subtitle}", r"% Needs \usepackage{booktabs}."]
    group = WITHIN.join("r" * per)
    lines += [rf"\begin{{tabular}}{{@{{}}l{BETWEEN}{BETWEEN.join([group] * (width // per))}@{{}}}}", r"\toprule"]
    if table.spec.scale == "preview":
        said = textwrap.wrap(f"{table.title}. {table.subtitle}", _characters(table))
        lines += [_line(rf"\itshape {escape(text)}", width) for text in said]
        lines.append(r"\midrule")
    for number, block in enumerate(table.blocks):
        lines += [r"\midrule"] * bool(number) + _block(block, table, parts, width)
    lines += [r"\bottomrule", r"\addlinespace"]
    for note in (*(f"Warning: {text}" for text in table.warnings), *table.notes):
        lines += [_line(escape(text), width) for text in textwrap.wrap(note, _characters(table))]
    return "\n".join([*lines, r"\end{tabular}"]) + "\n"


def escape(text: str) -> str:
    """Escape text for LaTeX; a character with no entry above passes, UTF-8 being LaTeX's own input encoding.

    Straight quotes open or close by what stands before them.
    """
    quoted = OPENS.sub(lambda found: found[1] + {'"': "“", "'": "‘"}[found[2]], text).replace('"', "”")
    return "".join(SPECIAL.get(character, character) for character in quoted)


def _parts(table: TypesetTable) -> list[str]:
    """Return the ``PARTS`` that some column of the table has: every column has room for all of them."""
    return [part for part in PARTS if any(part in under for block in table.blocks for under in block.under)]


def _characters(table: TypesetTable) -> int:
    """Return about how many characters of a note fit the table's width: notes never widen it."""
    widest, parts = 0, _parts(table)
    for block in table.blocks:
        label = max(len(table.spec.row_header), *(len(name) for name, _ in block.rows))
        for place, under in enumerate(block.under):
            for part in parts:
                texts = [under.get(part, ""), *(getattr(cells[place], part) for _, cells in block.rows)]
                label += max(map(len, texts)) + 2
        widest = max(widest, label)
    return max(60, widest)


def _block(block: TableBlock, table: TypesetTable, parts: list[str], width: int) -> list[str]:
    """Return a block's header rows, rule and lines, filled up to ``width`` number columns."""
    lines, per = [], len(parts)
    if block.heading:
        lines += [_line(rf"\textit{{{escape(block.heading)}}}", width), r"\addlinespace"]
    for level in block.headers:
        lines += _header([(header.text, header.span * per) for header in level], width)
    fill = [""] * (width - per * len(block.under))
    under = [escape(words.get(part, "")) for words in block.under for part in parts]
    lines += [" & ".join([escape(table.spec.row_header), *under, *fill]) + r" \\", r"\midrule"]
    for label, cells in block.rows:
        texts = [cell.part(part, escape, RANKS, RAISED) for cell in cells for part in parts]
        lines.append(" & ".join([escape(label), *texts, *fill]) + r" \\")
    return lines


def _header(headers: list[tuple[str, int]], width: int) -> list[str]:
    """Return a header row, each text centred over its own columns without the gap behind them, and the rules under it.

    ``headers``: text and number of columns. Columns count from 1, the row's name first.
    """
    cells, rules, end = [""], [], 1
    for text, span in headers:
        start, end = end + 1, end + span
        gap, trim = ("@{}", "") if end == width + 1 else (BETWEEN, rf"(r{{{GAP}}})")
        cells.append(rf"\multicolumn{{{span}}}{{@{{}}c{gap}}}{{{escape(text)}}}")
        rules.append(rf"\cmidrule{trim}{{{start}-{end}}}")
    return [" & ".join(cells) + r" \\", " ".join(rules)]


def _line(text: str, width: int) -> str:
    """Return a line of text, in LaTeX, across a table of ``width`` columns of numbers."""
    return rf"\multicolumn{{{width + 1}}}{{@{{}}l@{{}}}}{{{text}}} \\"
