r"""LaTeX: one bare ``tabular`` for ``\input``, with the rules of booktabs and nothing else to load.
 Scale, blocks and notes are rows of the tabular, so that whatever box it is put into carries them along;
notes are broken into lines here, at the width of the table, because a paragraph column would need a length
that only the document knows.
"""

from __future__ import annotations

import textwrap

from flatfed.tables.layout import Block, Entry, Table

#: Character -> LaTeX that prints it in text, with any engine and no package.
SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"$<$", ">": r"$>$", "|": r"$|$", '"': "''",
    "±": r"$\pm$", "−": r"$-$", "–": "--", "—": "---", "×": r"$\times$", "≥": r"$\ge$", "≤": r"$\le$", "ρ": r"$\rho$",
    "α": r"$\alpha$", "β": r"$\beta$", "γ": r"$\gamma$", "η": r"$\eta$", "λ": r"$\lambda$", "…": r"\dots{}",
    "’": "'", "‘": "`", "“": "``", "”": "''", "\u00a0": "~", "√": r"$\surd$", "→": r"$\to$", "·": r"$\cdot$",
}  # fmt: skip

#: Space between the paper's columns, and between the numbers that belong together in one.
GAP = "1.6em"
BETWEEN, WITHIN = rf"@{{\hspace{{{GAP}}}}}", r"@{\hspace{.8em}}"


def render(table: Table) -> str:
    """Return the tabular, with title and source as comments above it."""
    per = table.numbers
    width = max(sum(header.span for header in block.headers[0]) for block in table.blocks) * per
    lines = [f"% {table.title}", f"% {table.subtitle}", r"% Needs \usepackage{booktabs}."]
    group = WITHIN.join("r" * per)
    lines += [rf"\begin{{tabular}}{{@{{}}l{BETWEEN}{BETWEEN.join([group] * (width // per))}@{{}}}}", r"\toprule"]
    if table.scale == "preview":
        said = textwrap.wrap(f"{table.title}. {table.subtitle}", _characters(table))
        lines += [rf"\multicolumn{{{width + 1}}}{{@{{}}l@{{}}}}{{\itshape {escape(text)}}} \\" for text in said]
        lines.append(r"\midrule")
    for number, block in enumerate(table.blocks):
        lines += [r"\midrule"] * bool(number) + _block(block, table, per, width)
    lines += [r"\bottomrule", r"\addlinespace"]
    for note in table.notes:
        for text in textwrap.wrap(note, _characters(table)):
            lines.append(rf"\multicolumn{{{width + 1}}}{{@{{}}l@{{}}}}{{{escape(text)}}} \\")
    return "\n".join([*lines, r"\end{tabular}"]) + "\n"


def escape(text: str) -> str:
    """Escape text for LaTeX; a character with no entry above passes, UTF-8 being LaTeX's own input encoding."""
    return "".join(SPECIAL.get(character, character) for character in text)


def _characters(table: Table) -> int:
    """Return about how many characters of a note fit the table's width: notes never widen it."""
    widest = 0
    for block in table.blocks:
        label = max(len(table.row_header), *(len(name) for name, _ in block.rows))
        for place, under in enumerate(block.under):
            texts = [_texts(entries[place], table.numbers, str) for _, entries in block.rows]
            label += sum(max(len(line[i]) for line in [under, *texts]) + 2 for i in range(len(under)))
        widest = max(widest, label)
    return max(60, widest)


def _block(block: Block, table: Table, per: int, width: int) -> list[str]:
    """Return a block's header rows, rule and lines, filled up to ``width`` number columns."""
    lines = []
    if block.heading:
        lines += [
            rf"\multicolumn{{{width + 1}}}{{@{{}}l@{{}}}}{{\textit{{{escape(block.heading)}}}}} \\",
            r"\addlinespace",
        ]
    for level in block.headers:
        lines.append(_merged([(header.text, header.span * per) for header in level], width) + r" \\")
        lines.append(_rules([header.span * per for header in level], width))
    fill = [""] * (width - per * len(block.under))
    lines.append(
        " & ".join([escape(word) for words in ((table.row_header,), *block.under) for word in words] + fill) + r" \\"
    )
    lines.append(r"\midrule")
    for label, entries in block.rows:
        texts = [text for entry in entries for text in _texts(entry, table.numbers, escape)]
        lines.append(" & ".join([escape(label), *texts, *fill]) + r" \\")
    return lines


def _merged(headers: list[tuple[str, int]], width: int) -> str:
    """Return a header row, each text centred over its own columns without the gap that follows them."""
    cells, end = [""], 0
    for text, span in headers:
        end += span
        cells.append(rf"\multicolumn{{{span}}}{{@{{}}c{'@{}' if end == width else BETWEEN}}}{{{escape(text)}}}")
    return " & ".join(cells)


def _rules(spans: list[int], width: int) -> str:
    """Return the rules under merged headers, cut before the gap; columns count from 1, the row's name first."""
    start, rules = 2, []
    for span in spans:
        trim = "" if start + span - 2 == width else rf"(r{{{GAP}}})"
        rules.append(rf"\cmidrule{trim}{{{start}-{start + span - 1}}}")
        start += span
    return " ".join(rules)


def _texts(entry: Entry, numbers: int, escape) -> list[str]:
    """Return a cell's one, two or three texts."""
    marks = rf"\textsuperscript{{{','.join(entry.marks)}}}" if entry.marks else ""
    return [escape(entry.ours), escape(entry.paper) + marks, escape(entry.difference)][:numbers]
