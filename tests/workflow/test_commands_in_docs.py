"""Links of README and docs, and the commands inside their sentences, name files, make's targets and options.

Those in blocks are run (tests/workflow/test_docs.py).
"""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

import pytest

from flatfed import cli
from repository import ROOT

PAGES = sorted([*ROOT.glob("*.md"), ROOT / "config/README.md", *(ROOT / "docs").glob("*.md")])
PROGRAMS = ("pytest", "make", "flatfed", "python", "bash")
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M))


def commands(page: Path) -> list[list[str]]:
    """Return the words of each command inside the sentences of ``page``."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    found = []
    for said in re.findall(r"(?<!`)`([^`]+)`(?!`)", text):
        words = shlex.split(" ".join(said.split()), posix=True) if said.count("'") % 2 == 0 else []
        while words and re.match(r"[A-Z_]+=", words[0]):
            words = words[1:]
        if len(words) > 1 and words[1] != "..." and Path(words[0]).name in PROGRAMS:
            found.append(words)
    return found


def absent(words: list[str]) -> list[str]:
    """Return what a command names that is not there."""
    program, *rest = [Path(words[0]).name, *words[1:]]
    if program == "python" and rest[:2] == ["-m", "flatfed"]:
        program, rest = "flatfed", rest[2:]
    if program == "make":
        return [word for word in rest if re.fullmatch(r"[a-z-]+", word) and word not in TARGETS]
    if program == "flatfed":
        parser = cli.parser()
        (commands,) = (action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction))
        parser = parser if rest[0].startswith("--") else commands[rest[0]]
        options = {word.partition("=")[0] for word in rest if word.startswith("--") and len(word) > 2}
        return sorted(options - set(parser._option_string_actions))
    files = [word.partition("::")[0] for word in rest if re.search(r"\.(py|sh)$|^(tests|benchmarks|\.ci)/", word)]
    return [file for file in files if "*" not in file and not (ROOT / file).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_links_name_what_is_there(page):
    assert {" ".join(words): names for words in commands(page) if (names := absent(words))} == {}
    targets = [text for text in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")) if "://" not in text]
    assert [target for target in targets if not (page.parent / target).exists()] == []
