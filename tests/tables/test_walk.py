"""The walk of one number in docs/architecture.md: each of its files is called, in a published run's cell."""

import re
import sys
from dataclasses import replace

from flatfed.plan import at_scale
from flatfed.runs.store import Store
from flatfed.tables import blocks
from flatfed.tables.formats import markdown
from repository import ROOT
from shipped import EXP


def test_a_number_passes_the_files_of_the_page():
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").partition("## One number")[2]
    files = re.findall(r"^\|[^|]*\| `(\S+\.py)` \|", page, re.MULTILINE)
    request = EXP.request.model_copy(update={"seeds": [1]})
    published = replace(EXP, store=Store([str(ROOT / "results/published")], alone=True), request=request)
    called: set[str] = set()

    def note(frame, event, argument):
        called.add(frame.f_code.co_filename.partition("/src/flatfed/")[2])

    sys.setprofile(note)
    try:
        table = at_scale.table(published, "paper", "fedsmoo2023_T1", ["cifar10-path3-200"], "fedcm")
        text = markdown.render(blocks.typeset(table))
    finally:
        sys.setprofile(None)
    assert " 76.03 |" in text
    before = {"config/table.py"}  # documents are checked when they are read
    assert len(files) <= 12 and {*files} - before <= called
