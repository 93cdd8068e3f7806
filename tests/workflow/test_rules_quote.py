"""Every value that a rule puts into a command line is quoted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from repository import ROOT

RULES = sorted((ROOT / "workflow" / "rules").glob("*.smk"))

#: The lines of a rule's shell command.
SHELL = re.compile(r"^( *)shell:\n((?:\1 +.*\n)+)", re.MULTILINE)


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.name)
def test_rules_run_shell_lines_alone_with_every_value_quoted(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"^ +(run|script|notebook|wrapper|cwl|template_engine):", text, re.MULTILINE)
    commands = [block[2] for block in SHELL.finditer(text)]
    assert len(commands) == len(re.findall(r"^ *shell\b(?!\.prefix)", text, re.MULTILINE))
    for command in commands:
        values = re.findall(r"\{([^{}]*)\}", command)
        assert values and not [value for value in values if not value.endswith(":q")]
