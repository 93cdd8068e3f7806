r"""LaTeX: a bare ``tabular`` for ``\input``; it needs only booktabs.

It has neither title nor notes, which are in the Markdown file.
"""

from __future__ import annotations

import re

from flatfed.tables.blocks import PARTS, TableBlock, TypesetTable

#: Character -> LaTeX, for any engine, without packages.
SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"$<$", ">": r"$>$", "|": r"$|$",
    "±": r"$\pm$", "−": r"$-$", "–": "--", "—": "---", "×": r"$\times$", "≥": r"$\ge$", "≤": r"$\le$", "…": r"\dots{}",
    "’": "'", "‘": "`", "“": "``", "”": "''", "\u00a0": "~", "√": r"$\surd$", "→": r"$\to$", "·": r"$\cdot$",
    "⚠": r"\textbf{!}", "†": r"$\dagger$", "`": r"{\textasciigrave}", "‖": r"$\|$", "≠": r"$\ne$", "≈": r"$\approx$",
    "∞": r"$\infty$", "←": r"$\gets$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "∇": r"$\nabla$", "∂": r"$\partial$",
    "∑": r"$\sum$", "∆": r"$\Delta$", "ℓ": r"$\ell$",
}  # fmt: skip

#: Greek letters, and their commands; LaTeX has none for those that look like Latin ones.
GREEK = "αβγδεζηθικλμνξπρςστυφχψωϑϕϖϱϵΓΔΘΛΞΠΣΥΦΨΩ"
COMMANDS = """alpha beta gamma delta varepsilon zeta eta theta iota kappa lambda mu nu xi pi rho varsigma sigma tau
upsilon varphi chi psi omega vartheta phi varpi varrho epsilon
Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"""
SPECIAL |= {letter: rf"$\{name}$" for letter, name in zip(GREEK, COMMANDS.split(), strict=True)}
SPECIAL |= dict(zip("οΑΒΕΖΗΙΚΜΝΟΡΤΧ", "oABEZHIKMNOPTX", strict=True))

#: An opening straight quote: at the start, or after a space, a bracket or another quote.
OPENS = re.compile(r"""(^|[\s(\[{"'])(["'])(?=\S)""")

#: Templates of the best mean of a column, and of the errata of a printed number.
BOLD, RAISED = r"\textbf{{{}}}", r"\textsuperscript{{{}}}"

#: Space between the paper's columns, and between the numbers of one column.
GAP = "1.6em"
BETWEEN, WITHIN = rf"@{{\hspace{{{GAP}}}}}", r"@{\hspace{.8em}}"


def render(table: TypesetTable) -> str:
    """Return the tabular, after comments with title and source."""
    # Every column has room for the parts of all columns.
    parts = [part for part in PARTS if any(part in under for block in table.blocks for under in block.under)]
    columns = max(len(block.under) for block in table.blocks)
    width = columns * len(parts)
    group = BETWEEN.join([WITHIN.join("r" * len(parts))] * columns)
    lines = [f"% {table.title}", f"% {table.subtitle}", r"% Needs \usepackage{booktabs}."]
    lines += [rf"\begin{{tabular}}{{@{{}}l{BETWEEN}{group}@{{}}}}", r"\toprule"]
    for number, block in enumerate(table.blocks):
        lines += [r"\midrule"] * bool(number) + _block(block, table, parts, width)
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", f"% Notes: {table.id}.md"]) + "\n"


def escape(text: str) -> str:
    """Escape text for LaTeX; straight quotes become opening or closing ones."""
    quoted = OPENS.sub(lambda quote: quote[1] + {'"': "“", "'": "‘"}[quote[2]], text).replace('"', "”")
    return "".join(SPECIAL.get(character, character) for character in quoted)


def _block(block: TableBlock, table: TypesetTable, parts: list[str], width: int) -> list[str]:
    """Return the lines of a block, filled up to ``width`` number columns."""
    lines, per_column = [], len(parts)
    if block.heading:
        lines += [_line(rf"\textit{{{escape(block.heading)}}}", width), r"\addlinespace"]
    for headers in block.merged([per_column] * len(block.under)):
        lines += _header(headers, width)
    fill = [""] * (width - per_column * len(block.under))
    under = [escape(texts.get(part, "")) for texts in block.under for part in parts]
    lines += [" & ".join([escape(table.shown.document.row_header), *under, *fill]) + r" \\", r"\midrule"]
    for label, cells in block.rows:
        texts = [cell.formatted(part, escape, BOLD, RAISED) for cell in cells for part in parts]
        name = BOLD.format(escape(label)) if label == table.highlighted else escape(label)
        lines.append(" & ".join([name, *texts, *fill]) + r" \\")
    return lines


def _header(headers: list[tuple[str, int]], width: int) -> list[str]:
    """Return a row of ``headers``, (text, number of columns), and the rules under it, both without the last gap."""
    cells, rules, end = [""], [], 1  # the first column has the labels of the rows
    for text, span in headers:
        start, end = end + 1, end + span
        gap, trim = ("@{}", "") if end == width + 1 else (BETWEEN, rf"(r{{{GAP}}})")
        cells.append(rf"\multicolumn{{{span}}}{{@{{}}c{gap}}}{{{escape(text)}}}")
        rules.append(rf"\cmidrule{trim}{{{start}-{end}}}")
    return [" & ".join(cells) + r" \\", " ".join(rules)]


def _line(text: str, width: int) -> str:
    """Return text as a row across the table."""
    return rf"\multicolumn{{{width + 1}}}{{@{{}}l@{{}}}}{{{text}}} \\"
