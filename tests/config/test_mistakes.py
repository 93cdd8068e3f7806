"""Every mistake of mistakes.py ends with one message, and nothing is written."""

from __future__ import annotations

import json
from pathlib import Path

import mistakes
import pytest

import made
import own_files
from flatfed import cli, plan
from flatfed.config import strict_yaml
from flatfed.config.datasets import Source
from flatfed.config.document import Content
from flatfed.config.split import Split
from flatfed.data import keys, sources
from flatfed.data.schemes import SCHEMES
from flatfed.errors import ConfigError
from shipped import EXP


def edit(root: Path, file: str, text: str, other: str) -> None:
    """Replace ``text`` in a file of config/ below ``root``; the empty text appends."""
    path = root / "config" / file
    content = path.read_text()
    changed = content + other if text == "" else content.replace(text, other, 1)
    assert changed != content, f"{file} has no {text!r}"
    path.write_bytes(changed.encode("utf-8", "surrogateescape"))


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder that commands are called in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refusal(call, *arguments) -> str:
    """Return the message that a call is refused with."""
    with pytest.raises(ConfigError) as caught:
        call(*arguments)
    return str(caught.value)


def assert_one_line_has(message: str, fragments) -> None:
    assert any(all(fragment in line for fragment in fragments) for line in message.splitlines()), message


@pytest.mark.parametrize("name", mistakes.FILES)
def test_in_a_file_of_the_configuration(name, tmp_path):
    file, *change, fragments = mistakes.FILES[name]
    edit(made.small(tmp_path, Path(file).stem), file, *change)
    message = refusal(plan.load, tmp_path)
    assert_one_line_has(message, fragments)
    assert all(line.startswith("config/") for line in message.splitlines()), "one line for each mistake"


@pytest.mark.parametrize("name", mistakes.VALUES)
def test_in_the_values_of_the_configuration(name, small_config):
    change, fragments = mistakes.VALUES[name]
    message = refusal(lambda: plan.load(small_config, {"scale": "preview", "tables": [], "figures": [], **change}))
    assert_one_line_has(message, ["config/config.yaml or --config", *fragments])


@pytest.mark.parametrize("content", mistakes.YAML, ids=lambda content: content[:40])
def test_in_yaml(content, tmp_path):
    path = tmp_path / "f.yaml"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    message = refusal(strict_yaml.read, path, "f")
    assert message.startswith("f: ") and mistakes.YAML[content] in message
    assert "\n" not in message and len(message) < 500


@pytest.mark.parametrize("name", mistakes.OWN)
def test_in_a_file_of_ones_own(name, here, small_config, monkeypatch):
    path, value, *fragments = mistakes.OWN[name]
    monkeypatch.setattr(own_files, "ROOT", small_config)
    own_files.photos(here)
    assert_one_line_has(own_files.refusal(change=own_files.put(*path, value=value)), ["own/photos.yaml", *fragments])


@pytest.mark.parametrize("name", mistakes.RUNS)
def test_in_the_name_of_a_run(name):
    question, *fragments = mistakes.RUNS[name]
    message = refusal(EXP.run, *question, 1)
    assert_one_line_has(message, fragments)
    assert len(message) < 350, "the nearest of many, not all"


def refused(capsys, *command: object) -> str:
    """Call a command, which must say one line and leave everything as it is; return the line."""
    before = sorted(Path().rglob("*"))
    try:
        assert cli.main([str(word) for word in command]) == 2
    except SystemExit as end:  # of a path that is of another kind, before anything is begun
        assert end.code == 2
    assert sorted(Path().rglob("*")) == before
    return capsys.readouterr().err.splitlines()[-1]


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("resources") / "digits"
    sources.fetch(mistakes.DIGITS, folder)
    return folder


def changed(spec: dict, change: dict) -> dict:
    """Return ``spec`` with the keys of ``change`` replaced; None takes a key away, also one of `source`."""
    new = {key: value for key, value in {**spec, **change}.items() if value is not None}
    if isinstance(new.get("source"), dict):
        new["source"] = {key: value for key, value in new["source"].items() if value is not None}
    return new


def fetch(change: dict, out: object = "out") -> tuple:
    return "fetch", "--spec", json.dumps(changed(mistakes.DIGITS, change)), "--out", out


def partition(scheme: str, change: dict, dataset: object, out: object = "clients.npz") -> tuple:
    spec = json.dumps(changed(mistakes.DEALS[scheme], change))
    return "partition", "--spec", spec, "--dataset", dataset, "--out", out


@pytest.mark.parametrize("name", mistakes.COMMANDS)
def test_in_the_words_of_a_command(name, here, capsys):
    words, *fragments = mistakes.COMMANDS[name]
    assert_one_line_has(refused(capsys, *words), fragments)


@pytest.mark.parametrize("name", mistakes.DATASETS)
def test_in_a_dataset_by_hand(name, here, capsys):
    change, *fragments = mistakes.DATASETS[name]
    assert_one_line_has(refused(capsys, *fetch(change)), fragments)


@pytest.mark.parametrize("name", mistakes.PARTITIONS)
def test_in_a_partition_by_hand(name, here, capsys, digits):
    scheme, change, *fragments = mistakes.PARTITIONS[name]
    assert_one_line_has(refused(capsys, *partition(scheme, change, digits)), fragments)


def test_specifications_of_the_configuration_are_complete(here, digits):
    """Every dataset, scheme and source."""
    for name in EXP.catalog.datasets:
        keys.check_dataset(EXP.catalog.dataset_spec(name).as_written())
    schemes = [*SCHEMES, "domain"]
    for union, kinds in ((Split, schemes), (Source, sources.SOURCES)):
        assert Content(union).json_schema["discriminator"]["mapping"].keys() == {*kinds}
    for scheme in SCHEMES:
        assert cli.main([str(word) for word in partition(scheme, {}, digits, f"{scheme}.npz")]) == 0
