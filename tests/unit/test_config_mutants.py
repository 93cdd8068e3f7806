"""Every mutant of a shipped YAML file is refused with one message that names file, key and value, and no trace.

``pytest -s`` prints how many mutants of each kind of mistake were refused, for every kind of file.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
import yaml
from mutations_of_configuration import EACH, KINDS, MISTAKES, OWN, Mutant, mutants
from own_files import photos
from snakemake.cli import parse_config

from flatfed import experiment, strict_yaml
from flatfed.errors import ConfigError
from flatfed.experiment import cell_specs, figure_specs, table_specs
from flatfed.experiment.catalog import SECTIONS
from flatfed.papers.errata import Errata

ROOT = Path(__file__).parents[2]

#: (mistakes, places, reason) of the mutants that are accepted.
ACCEPTED = [
    ({"misspelt key"}, r"(splits|datasets|algorithms).yaml: [^/]+", "an id that no shipped table or figure names"),
    ({"misspelt key"}, r"protocols/.*unstated/\w+", "what a paper leaves open has any name"),
    (
        {"non-ASCII name", "shell in a name"},
        r"datasets.yaml: \w+/source/domains/\d+",
        "a folder's name is as it is on disk",
    ),
    (
        {"non-ASCII name", "shell in a name", "path in a name"},
        r"errata.yaml: \w+/finding/(source|against|contradictions/\d+/\w+)",
        "a text of the page: test_errata.py recomputes it",
    ),
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of config/."""
    root = tmp_path_factory.mktemp("mutants")
    shutil.copytree(ROOT / "config", root / "config")
    return root


def answer(root: Path, mutant: Mutant, config: dict | None = None) -> None:
    """Load ``root`` and ask what Snakemake asks of the mutated file before the first job."""
    if mutant.kind == "errata":
        Errata(root)
        return
    loaded = experiment.load(root, config)
    loaded.check()
    name = Path(mutant.file).stem
    for scale in experiment.SCALES:
        tables = [name] if mutant.kind == "tables" else loaded.tables if mutant.kind != "figures" else []
        for table in (
            table for table in tables if scale in loaded.tables[table].settings.get("scales", experiment.SCALES)
        ):
            cell_specs.cells(loaded, scale, table)
            table_specs.table_spec(loaded, scale, table)
        for figure in [name] if mutant.kind == "figures" else loaded.figures if mutant.kind != "tables" else []:
            figure_specs.figure_spec(loaded, scale, figure)


def refusal(root: Path, mutant: Mutant, config: dict | None = None) -> str | None:
    """Return the message that a mutant is refused with, None where it is accepted."""
    try:
        answer(root, mutant, config)
    except ConfigError as error:
        return str(error)
    return None


def reason(mutant: Mutant) -> str | None:
    """Return why a mutant may be accepted, None where it may not."""
    return next(
        (why for mistakes, at, why in ACCEPTED if mutant.mistake in mistakes and re.fullmatch(at, mutant.place)), None
    )


def shortcomings(mutant: Mutant, message: str) -> list[str]:
    """Return what a message lacks: one of its lines says it all, others say where the mutant makes more mistakes."""
    lines = message.splitlines()
    if not all(line.startswith("config/") for line in lines):
        return ["one line for each mistake"]
    return min((_shortcomings(mutant, line) for line in lines), key=len)


def _shortcomings(mutant: Mutant, line: str) -> list[str]:
    lacks = [" or ".join(words) for words in mutant.says if not any(word in line for word in words)]
    renamed = mutant.mistake == "misspelt key"  # whoever asks for the old name is named
    return [*lacks, *([] if renamed or f"config/{mutant.file}" in line else [f"config/{mutant.file}"])]


#: A file with all that one's own can have.
WHOLE = """
title: Mine
rows: [fedavg, fedsam~wide, fedsmoo]
columns:
  - {protocol: photos, splits: [skewed, even]}
  - {protocol: photos~short, splits: [skewed], metric: rounds_to_target, unit: rounds, targets: [t1]}
seeds: {paper: [1, 2, 3]}
datasets:
  photos:
    label: Photos
    mean: [0.4, 0.5, 0.6]
    source: {source: imagefolder, path: photos, size: 32}
protocols:
  photos:
    dataset: photos
    model: {name: cnn, options: {dropout1: 0.1}}
    rounds: 20
    learning_rate: 0.05
    evaluation: {every: 2}
    algorithms: {fedsam: {rho: 0.02}}
    targets: {skewed: {t1: 0.5}, even: {t1: 0.6}}
    variants:
      short: {rounds: 5, seeds: [4]}
splits:
  skewed: {scheme: dirichlet, alpha: 0.3, clients: 6, participation: 0.5}
  even: {scheme: iid, balanced: true, clients: 3, participation: 1, sampling: all}
algorithms:
  fedsam~wide: {set: {rho: 0.5, local_epochs: 2}}
"""


def test_every_mutant_of_a_file_of_ones_own_is_refused(project: Path, monkeypatch) -> None:
    photos(project)
    monkeypatch.chdir(project)
    path = project / "config/tables/own.yaml"
    path.write_text(WHOLE)
    try:
        loaded = experiment.load(project)
        assert len(cell_specs.cells(loaded, "paper", "own")) == 9
        refused = 0
        for mutant in mutants(project, OWN):
            path.write_text(mutant.text, encoding="utf-8")
            told = f"{mutant.mistake}, {mutant.place}, {mutant.change[:80]!r}"
            try:
                loaded = experiment.load(project)
                loaded.check()
                cell_specs.cells(loaded, "paper", "own")
            except ConfigError as error:
                assert not shortcomings(mutant, str(error)), f"{told}: {error}"
                refused += 1
            else:
                assert mutant.mistake == "misspelt key" and mutant.path[0] in SECTIONS, f"accepted: {told}"
        assert refused >= 0.9 * EACH * len(MISTAKES)
    finally:
        path.unlink()


@pytest.mark.parametrize("kind", KINDS)
def test_every_mutant_is_refused_with_file_key_and_value(kind: str, project: Path) -> None:
    counts: Counter[str] = Counter()
    accepted: Counter[str] = Counter()
    for mutant in mutants(ROOT, kind):
        path = project / "config" / mutant.file
        original = path.read_bytes()
        path.write_text(mutant.text, encoding="utf-8")
        try:
            message = refusal(project, mutant)
        finally:
            path.write_bytes(original)
        told = f"{mutant.mistake}, {mutant.place}, {mutant.change[:80]!r}"
        counts[mutant.mistake] += 1
        if message is None:
            assert reason(mutant), f"accepted without a reason: {told}"
            accepted[mutant.mistake] += 1
        else:
            assert not shortcomings(mutant, message), f"{told}: {message}"
    assert counts == dict.fromkeys(MISTAKES, EACH)
    assert accepted.total() <= counts.total() / 10
    print(
        f"\n{kind}: {counts.total() - accepted.total()} of {counts.total()} refused;", dict(accepted) or "none accepted"
    )


def test_mutants_of_the_configuration_are_refused_on_the_command_line(project: Path) -> None:
    """As ``--config key=value``, read by Snakemake's own functions; what the command line cannot say is left out."""
    refused = 0
    for mutant in mutants(ROOT, "config"):
        try:
            content = yaml.load(mutant.text, yaml.BaseLoader)
        except yaml.YAMLError:
            continue
        if mutant.mistake in ("key twice", "anchors, merges, tags", "not YAML, or YAML 1.1") or not content:
            continue
        given = [
            f"{key}={yaml.safe_dump(value, default_flow_style=True, width=10**6).strip()}"
            for key, value in content.items()
        ]
        try:
            read = parse_config([entry.removesuffix("\n...") for entry in given])
        except ValueError:  # a key that Snakemake refuses
            continue
        config = {key: strict_yaml.as_in_a_file(value) for key, value in read.items()}
        message = refusal(project, mutant, config)
        assert message is not None, (mutant, given)
        assert message.startswith("config/config.yaml or --config: ")
        assert mutant.key in message or mutant.change in message
        refused += 1
    assert refused >= 5 * EACH
    print(f"\n--config: {refused} refused")
