"""Every value that a rule puts into a command line is quoted."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from flatfed import plan
from flatfed.plan import run_specs
from repository import ROOT

RULES = sorted((ROOT / "workflow" / "rules").glob("*.smk"))

#: The lines of a rule's shell command.
SHELL = re.compile(r"^( *)shell:\n((?:\1 +.*\n)+)", re.MULTILINE)


def commands(path: Path) -> list[str]:
    return [found[2] for found in SHELL.finditer(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.name)
def test_every_value_in_a_shell_line_is_quoted(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(commands(path)) == len(re.findall(r"^ *shell\b(?!\.prefix)", text, re.MULTILINE))
    for command in commands(path):
        values = re.findall(r"\{([^{}]*)\}", command)
        assert values
        assert not [value for value in values if not value.endswith(":q")]


def test_rules_run_nothing_but_shell_lines() -> None:
    for path in RULES:
        assert not re.search(r"^ +(run|script|notebook|wrapper|cwl|template_engine):", path.read_text(), re.MULTILINE)


def test_the_settings_of_an_analysis_are_words_by_themselves() -> None:
    words = run_specs.analysis_options(plan.load(ROOT).catalog, "surface", "preview", "fedsmoo-cifar10")
    assert words[::2] == ["--grid", "--range", "--set", "--images"]
    assert words[5] == "train"
    catalog = plan.load(ROOT).catalog
    other = run_specs.analysis_options(catalog, "surface", "preview", "fedsmoo-cifar10", set="test")
    assert other == [*words[:5], "test", *words[6:]]
    assert shlex.split(shlex.join(words)) == words
