"""The committed mistakes still fit the source, and every algorithm has its share. `make mutants` makes them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from flatfed import algorithms
from repository import ROOT, SRC

sys.path.insert(0, str(ROOT / "tests" / "mutants"))

from mutations import MUTATIONS, source_file

from samples import full


def test_every_algorithm_has_four_mistakes():
    assert MUTATIONS.keys() == set(algorithms.names())
    assert not {name for name, mutations in MUTATIONS.items() if len(set(mutations)) < 4}


@full
def test_the_tests_of_an_algorithm_notice_its_mistakes():
    """`make mutants` tries those of every algorithm."""
    command = [sys.executable, str(ROOT / "tests" / "mutants"), "centralised_sgd"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and "no survivors" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("mutation", sorted({one for own in MUTATIONS.values() for one in own}), ids=lambda one: one[3])
def test_a_mistake_can_be_made(mutation):
    file, text, other, _ = mutation
    content = (SRC / "flatfed" / source_file(file)).read_text()
    assert content.count(text) == 1
    mutated = content.replace(text, other)
    assert mutated != content
    compile(mutated, file, "exec")
