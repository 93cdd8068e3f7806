r"""LaTeX: a bare ``tabular`` per block, for ``\input``; it needs only booktabs.

It has neither title nor notes, which are in the Markdown file.
"""

from __future__ import annotations

import re

from flatfed.tables.blocks import TableBlock, TypesetTable
from flatfed.tables.doubts import OTHER_PRECISION
from flatfed.tables.notes import WARNED

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



def render(table: TypesetTable) -> str:
    """Return the tabulars, after comments with title and source."""
    lines = [f"% {table.title}", f"% {table.subtitle}", r"% Needs \usepackage{booktabs}."]
    blocks = "\n\\medskip\n\n".join(_tabular(block, table) for block in table.blocks)
    return "\n".join([*lines, f"{blocks}% Notes: {table.id}.md"]) + "\n"


def escape(text: str) -> str:
    """Escape text for LaTeX; straight quotes become opening or closing ones."""
    quoted = OPENS.sub(lambda quote: quote[1] + {'"': "“", "'": "‘"}[quote[2]], text).replace('"', "”")
    return "".join(SPECIAL.get(character, character) for character in quoted)


def _tabular(block: TableBlock, table: TypesetTable) -> str:
    texts = block.formatted(escape, BOLD, RAISED, table.highlighted)
    texts.columns.names = [*[None] * (texts.columns.nlevels - 1), escape(table.shown.document.row_header)]
    for mark in map(escape, (OTHER_PRECISION, WARNED)):  # without a width: decimals stay aligned
        texts = texts.map(lambda text, mark=mark: text.replace(f" {mark}", rf"\rlap{{\,{mark}}}"))
    heading = rf"\textit{{{escape(block.heading)}}}\par" + "\n" if block.heading else ""
    tabular = texts.style.to_latex(column_format="l" + "r" * len(block.parts), hrules=True, multicol_align="c")
    return heading + "\n".join(line + _rules(line) for line in tabular.splitlines()) + "\n"


def _rules(line: str) -> str:
    """Return the rules under the groups of a header ``line``, which pandas does not draw."""
    rules, last = "", 0
    for head in line.split(" & "):
        group = re.match(r"\\multicolumn\{(\d+)\}\{c\}\{(?P<empty>\})?", head)
        first, last = last + 1, last + (int(group[1]) if group else 1)
        rules += rf" \cmidrule(lr){{{first}-{last}}}" if group and not group["empty"] else ""
    return rules
