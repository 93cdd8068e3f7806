"""What goes with a release: one version everywhere."""

from __future__ import annotations

import re
import tomllib

import yaml

from flatfed import __version__
from repository import ROOT


def test_one_version_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    newest = re.search(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.M)[1]
    assert project["version"] == cited["version"] == newest == __version__
