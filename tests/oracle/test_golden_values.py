"""Golden values: a run's numbers change only when one of its versions does (tests/golden.py)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import golden
from flatfed import algorithms, models
from flatfed.data.schemes import VERSIONS
from samples import sampled

TOLERANCE = 1e-10
#: Models of nine million parameters and more, which take minutes.
UNCOVERED_MODELS = {"vgg11_gn"}
#: Models whose cases take seconds.
LARGE_MODELS = ("resnet18_bn", "resnet18_gn", "cnn_5x5")
#: The first cases, which have all partition schemes and kinds of algorithms.
FIRST = 10


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Return the folder of all cases' data."""
    return tmp_path_factory.mktemp("golden")


@pytest.fixture(scope="module")
def cases() -> list[golden.Case]:
    return golden.cases()


def differing(case: golden.Case, folder: Path, executor: str = "sequential") -> list[str]:
    """Return the values of a case that differ from the stored ones."""
    expected = golden.stored(case, golden.entries())
    assert expected is not None, f"{case.name} has no golden values at its present versions: {golden.COMMAND}"
    values = golden.values(golden.simulation(case, folder, executor))
    assert values.keys() == expected.keys()

    def equal(ours: list[float], theirs: list[float]) -> bool:
        within = TOLERANCE * max(map(abs, theirs))
        return len(ours) == len(theirs) and all(abs(a - b) <= within for a, b in zip(ours, theirs, strict=True))

    return [name for name, theirs in expected.items() if not equal(values[name], theirs)]


@pytest.mark.parametrize("part", sampled(["first", "rest", "large models"], ["first"]))
@pytest.mark.parametrize("executor", sampled(["sequential", "stacked"], ["stacked"]))
def test_values_are_the_stored_ones(cases, folder, executor, part):
    """The last case is a transformer."""
    small = [case for case in cases if case.config.model.name not in LARGE_MODELS]
    parts = {"first": [*small[:FIRST], small[-1]], "rest": small[FIRST:-1]}
    chosen = parts.get(part, [case for case in cases if case not in small])
    found = {case.name: differing(case, folder, executor) for case in chosen}
    wrong = {name: values for name, values in found.items() if values}
    assert found and not wrong, "increase the version of the component that changed"


def test_cases_cover_algorithms_schemes_and_models(cases):
    descriptions = [case.config.as_json() for case in cases]
    assert {each["update"]["name"] for each in descriptions} == set(algorithms.names())
    assert {each["partition"]["scheme"] for each in descriptions} == set(VERSIONS)
    assert {each["model"]["name"] for each in descriptions} == set(models.names()) - UNCOVERED_MODELS
    assert len({case.name for case in cases}) == len(cases)


def test_entries_are_never_changed_or_removed():
    """Compare with every commit of this clone, in a shallow one with few. Merges have no entries of their own."""
    git = ["git", "-C", str(golden.ROOT)]
    name = golden.FILE.relative_to(golden.ROOT)
    words = [*git, "rev-list", "--full-history", "--no-merges", "HEAD", "--", name]
    listed = subprocess.run(words, capture_output=True, text=True)
    if listed.returncode or not listed.stdout:
        pytest.skip("no git history of tests/golden.json")
    entries = golden.entries()
    for commit in listed.stdout.split():
        text = subprocess.run([*git, "show", f"{commit}:./{name}"], capture_output=True, text=True, check=True).stdout
        assert all(entry in entries for entry in golden.entries(text)), f"{commit[:9]} has other values"
    keys = [(entry["case"], sorted(entry["versions"].items())) for entry in entries]
    assert all(keys.count(key) == 1 for key in keys), "two entries of one case and versions"
