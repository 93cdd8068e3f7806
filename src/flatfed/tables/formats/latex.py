r"""LaTeX: one bare ``tabular`` for ``\input``, with the rules of booktabs and nothing else to load.
 Scale, blocks and notes are rows of the tabular, so that whatever box it is put into carries them along;
notes are broken into lines here, at the width of the table, because a paragraph column would need a length
that only the document knows.
"""

from __future__ import annotations

import re
import textwrap

from flatfed.tables.blocks import Block, Entry, TypesetTable

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

#: How a marked number is set.
MARKS = {"best": r"\textbf", "second": r"\underline"}

#: Space between the paper's columns, and between the numbers that belong together in one.
GAP = "1.6em"
BETWEEN, WITHIN = rf"@{{\hspace{{{GAP}}}}}", r"@{\hspace{.8em}}"


def render(table: TypesetTable) -> str:
    """Return the tabular, with title and source as comments above it."""
    per = table.numbers + _with_others(table)
    width = max(sum(header.span for header in block.headers[0]) for block in table.blocks) * per
    lines = [f"% {table.title}", f"% {table.subtitle}", r"% Needs \usepackage{booktabs}."]
    group = WITHIN.join("r" * per)
    lines += [rf"\begin{{tabular}}{{@{{}}l{BETWEEN}{BETWEEN.join([group] * (width // per))}@{{}}}}", r"\toprule"]
    if table.spec.scale == "preview":
        said = textwrap.wrap(f"{table.title}. {table.subtitle}", _characters(table))
        lines += [rf"\multicolumn{{{width + 1}}}{{@{{}}l@{{}}}}{{\itshape {escape(text)}}} \\" for text in said]
        lines.append(r"\midrule")
    for number, block in enumerate(table.blocks):
        lines += [r"\midrule"] * bool(number) + _block(block, table, per, width)
    lines += [r"\bottomrule", r"\addlinespace"]
    for note in (*(f"Warning: {text}" for text in table.warnings), *table.notes):
        for text in textwrap.wrap(note, _characters(table)):
            lines.append(rf"\multicolumn{{{width + 1}}}{{@{{}}l@{{}}}}{{{escape(text)}}} \\")
    return "\n".join([*lines, r"\end{tabular}"]) + "\n"


def escape(text: str) -> str:
    """Escape text for LaTeX; a character with no entry above passes, UTF-8 being LaTeX's own input encoding.

    Straight quotes open or close by what stands before them.
    """
    quoted = OPENS.sub(lambda found: found[1] + {'"': "“", "'": "‘"}[found[2]], text).replace('"', "”")
    return "".join(SPECIAL.get(character, character) for character in quoted)


def _with_others(table: TypesetTable) -> bool:
    """Return whether another tool's estimates stand beside ours, in a number of their own under every column."""
    return any(name for block in table.blocks for name in block.beside)


def _characters(table: TypesetTable) -> int:
    """Return about how many characters of a note fit the table's width: notes never widen it."""
    widest = 0
    for block in table.blocks:
        label = max(len(table.spec.row_header), *(len(name) for name, _ in block.rows))
        for place, under in enumerate(block.under):
            texts = [_texts(entries[place], table) for _, entries in block.rows]
            head = _beside(under, block.beside[place], table)
            label += sum(max(len(line[i]) for line in [head, *texts]) + 2 for i in range(len(head)))
        widest = max(widest, label)
    return max(60, widest)


def _block(block: Block, table: TypesetTable, per: int, width: int) -> list[str]:
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
    under = [_beside(words, name, table) for words, name in zip(block.under, block.beside, strict=True)]
    lines.append(
        " & ".join([escape(word) for words in ((table.spec.row_header,), *under) for word in words] + fill) + r" \\"
    )
    lines.append(r"\midrule")
    for label, entries in block.rows:
        texts = [text for entry in entries for text in _set(entry, table)]
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


def _beside(words: tuple[str, ...], name: str, table: TypesetTable) -> tuple[str, ...]:
    """Return the words under a column, the ``name`` of who estimated beside us behind ours where the table has any."""
    return (words[0], name, *words[1:]) if _with_others(table) else words


def _texts(entry: Entry, table: TypesetTable) -> tuple[str, ...]:
    """Return a cell's texts, one to four: ours, another tool's, the paper's, the difference."""
    return _beside((entry.ours, entry.paper, entry.difference)[: table.numbers], entry.beside, table)


def _set(entry: Entry, table: TypesetTable) -> list[str]:
    """Return a cell's texts in LaTeX: ours as best or second of its column, the paper's with its errata."""
    ours, *others = map(escape, _texts(entry, table))
    if entry.marks:
        others[_with_others(table)] += rf"\textsuperscript{{{','.join(entry.marks)}}}"
    return [f"{MARKS[entry.rank]}{{{ours}}}" if entry.rank else ours, *others]
