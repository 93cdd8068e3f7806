"""Links of README and docs, and the commands inside their sentences, name what is there: files, targets, options.

Those in blocks are run (tests/workflow/test_docs_commands.py and test_docs.py).
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from flatfed import cli
from repository import ROOT
from shipped import EXP

PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "config/README.md", *(ROOT / "docs").glob("*.md")])
PROGRAMS = ("pytest", "make", "flatfed", "python", "bash", "snakemake")
RULES = {
    rule
    for file in ROOT.glob("workflow/**/*[ks][em][fk]*")
    if file.is_file()
    for rule in re.findall(r"^(?:use )?rule (\w+)", file.read_text(encoding="utf-8"), flags=re.M)
}
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


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each sub-command of flatfed."""
    (choices,) = (action.choices for action in cli.parser()._actions if isinstance(action, argparse._SubParsersAction))
    return choices


def wrong(words: list[str]) -> str:
    """Return what a command names that is not there, "" if all is."""
    program, *rest = [Path(words[0]).name, *words[1:]]
    if program == "python" and rest[:2] == ["-m", "flatfed"]:
        program, rest = "flatfed", rest[2:]
    match program:
        case "make":
            absent = [word for word in rest if re.fullmatch(r"[a-z-]+", word) and word not in TARGETS]
        case "flatfed":
            sub = cli.parser() if rest[0].startswith("--") else parsers().get(rest[0])
            options = {word.partition("=")[0] for word in rest if word.startswith("--") and len(word) > 2}
            absent = sorted(options - set(sub._option_string_actions)) if sub else [rest[0]]
        case "snakemake":
            absent = [word for word in rest if word.startswith("results/") and not made(word)]
            rules = [word for before, word in pairwise(rest) if before == "all" and re.fullmatch(r"[a-z_]{5,}", word)]
            absent += [word for word in rules if word not in RULES]
        case _:
            named = [word for word in rest if re.search(r"\.(py|sh)$|^(tests|benchmarks|\.ci)/", word)]
            files = [word.partition("::")[0] for word in named]
            absent = [file for file in files if "*" not in file and not (ROOT / file).exists()]
    return " ".join(absent)


def made(target: str) -> bool:
    """Return whether a file under results is named for a table, figure, protocol or split that there is."""
    parts = re.sub(r"\{[^}]*\}|<[^>]*>|\*", "", target).split("/")
    place, name = parts[2] if len(parts) > 2 else "", parts[3].partition(".")[0] if len(parts) > 3 else ""
    known = {"tables": EXP.tables, "figures": EXP.figures, "cells": EXP.tables, "runs": EXP.catalog.protocols}
    return place not in known or not name or name in known[place] or name in ("photos", "mine_T1")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_name_what_is_there(page):
    assert {" ".join(words): absent for words in commands(page) if (absent := wrong(words))} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    targets = [text for text in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")) if "://" not in text]
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.skipif(Path(sys.prefix) != ROOT / ".venv", reason="another environment than `make quickstart` installs")
def test_both_ways_to_call_the_command_work_in_the_environment_that_make_installs(tmp_path):
    bare = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    for call in ([sys.executable, "-m", "flatfed"], [ROOT / ".venv/bin/flatfed"]):
        asked = subprocess.run([*call, "--help"], env=bare, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert asked.returncode == 0 and asked.stdout.startswith("usage: flatfed"), asked.stderr
