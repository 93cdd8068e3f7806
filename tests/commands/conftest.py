"""Commands in this process; each configuration is loaded once, unless data are present, which are counted."""

import functools
import json
from pathlib import Path

import pytest

from flatfed import plan

LOAD = plan.load


@functools.cache
def loaded(root, config):
    return LOAD(root, json.loads(config))


@pytest.fixture(autouse=True)
def cached_configuration(monkeypatch):
    def load(root, config=None):
        return LOAD(root, config) if Path("resources").exists() else loaded(root, json.dumps(config))

    monkeypatch.setattr(plan, "load", load)
