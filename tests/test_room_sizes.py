"""The size of each room of the package in lines of code: neither blank nor comment nor docstring.

A change that needs more lines raises the number of its room here, in its own commit.
"""

from __future__ import annotations

import ast
import io
import tokenize

from repository import ROOT

PACKAGE = ROOT / "src/flatfed"

#: Room -> the most lines of code; "" holds the modules outside of any room.
LIMITS = {
    "": 474,
    "algorithms": 1016,
    "analysis": 804,
    "config": 1230,
    "commands": 1408,
    "data": 1115,
    "engine": 3242,
    "figures": 798,
    "models": 457,
    "plan": 2626,
    "runs": 825,
    "tables": 1466,
    "snakemake_support": 229,
}

#: Tokens that are no code.
BLANK = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def lines_of_code(text: str) -> int:
    """Return the number of lines of ``text`` that hold code."""
    documentation: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            documentation |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in BLANK]
    return len({line for token in tokens for line in range(token.start[0], token.end[0] + 1)} - documentation)


def test_each_room_keeps_to_its_size():
    rooms = {"": PACKAGE.glob("*.py"), **{path.name: path.rglob("*.py") for path in PACKAGE.iterdir() if path.is_dir()}}
    lines = {room: sum(lines_of_code(path.read_text(encoding="utf-8")) for path in rooms[room]) for room in rooms}
    assert {room: count for room, count in lines.items() if count and count > LIMITS[room]} == {}
    assert LIMITS.keys() == {room for room, count in lines.items() if count}
