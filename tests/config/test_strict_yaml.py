"""How the configuration is read: YAML 1.2, anchors, values of the command line, files that are none, defaults."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import yaml

import made
from flatfed import algorithms, cli, plan
from flatfed.cli import parser
from flatfed.commands import configuration
from flatfed.config import strict_yaml
from flatfed.config.datasets import DATASETS
from flatfed.data import digits
from flatfed.errors import ConfigError
from flatfed.plan import run_specs
from repository import ROOT


def read(folder: Path, content: bytes | str):
    path = folder / "f.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return strict_yaml.read(path, "f")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a copy of config/."""
    shutil.copytree(ROOT / "config", tmp_path / "config")
    return tmp_path


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a: \xe9".encode("latin-1"), "not UTF-8: byte 3 is 0xe9"),
        ("a: 1".encode("utf-16"), "not UTF-8: byte 0 is 0xff"),
        (b"a: \x01", "not YAML"),
    ],
    ids=["latin-1", "UTF-16", "control character"],
)
def test_bytes_that_are_no_text(content: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"f: {words}"):
        read(tmp_path, content)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="f: cannot be read: Is a directory"):
        strict_yaml.read(tmp_path, "f")


def test_plain_words_are_those_of_yaml_1_2(tmp_path: Path) -> None:
    content = (
        "[yes, No, on, 010, 0x10, 1:30, 1_000, 2023-01-01, 1e, .e1, true, FALSE, ~, null, 1e-3, 5E2, 1., .5, -7, +1]"
    )
    assert read(tmp_path, content) == [
        *("yes", "No", "on", "010", "0x10", "1:30", "1_000", "2023-01-01", "1e", ".e1"),
        *(True, False, None, None, 1e-3, 500.0, 1.0, 0.5, -7, 1),
    ]


@pytest.mark.parametrize(
    "word", ["yes", "010", "true", "False", "7", "-1e-3", "inf", "1:30", "*a", "{a", "", "9" * 9999]
)
def test_a_word_of_the_command_line_is_read_as_in_a_file(word: str, tmp_path: Path) -> None:
    as_text = word in ("*a", "{a", "", "9" * 9999)  # a file would need quotes, or refuses it
    assert strict_yaml.as_in_a_file([word])[0] == (word if as_text else read(tmp_path, f"[{word}]")[0])


def test_a_byte_order_mark_and_line_ends_of_windows_change_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, b"\xef\xbb\xbfa: 1\r\nb: [x, y]\r\n") == {"a": 1, "b": ["x", "y"]}


def test_anchors_merges_and_exponents(project: Path) -> None:
    path = project / "config" / "splits.yaml"
    path.write_text(
        path.read_text()
        + "a: &a {label: [A], scheme: dirichlet, alpha: 5e-1, clients: 10, participation: 1}\n"
        + "b: {<<: *a, clients: 20}\n"
        + "c: {<<: *a, clients: 30}\n"
    )
    splits = plan.load(project).catalog.splits
    assert [splits[name].clients for name in "abc"] == [10, 20, 30]
    assert splits["c"].alpha == 0.5


def test_values_are_given_as_to_snakemake(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "own.yaml"
    own.write_text("scale: preview\ntables: [fedsmoo2023_T1]\nfigures: []\n")
    for parts in ([str(own), "scale=paper", "seeds=[3]"], ["scale=paper", "seeds=[3]", str(own)]):
        assert configuration.read(parts) == {
            **{"scale": "paper", "tables": ["fedsmoo2023_T1"], "figures": [], "seeds": [3]},
        }
    assert configuration.read(["scale=paper"])["scale"] == "paper", "in place of config/config.yaml's"
    assert configuration.read(["data={cifar10: {source: npz, path: a=b.npz}}"])["data"]["cifar10"]["path"] == "a=b.npz"
    with pytest.raises(ConfigError, match=r"--config: seeds=\[1: not YAML"):
        configuration.read(["seeds=[1"])
    with pytest.raises(ConfigError, match="expected one file, and KEY=VALUE"):
        configuration.read([str(own), "other.yaml"])
    assert cli.main(["check", "--config", "scale=papr"]) == 2
    assert "scale: unknown value 'papr'; did you mean 'paper'?" in capsys.readouterr().err


def test_tables_may_stand_behind_the_configuration():
    for words in (
        ["T1", "T2", "--config", "own.yaml", "scale=paper"],
        ["--config", "own.yaml", "scale=paper", "T1", "T2"],
        ["--config", "own.yaml", "--config", "scale=paper", "--", "T1", "T2"],
    ):
        asked = parser().parse_args(["status", *words])
        assert (asked.tables, asked.config) == (["T1", "T2"], ["own.yaml", "scale=paper"])


def test_editors_files_are_no_tables(project):
    for place in ("tables", "figures", "protocols"):
        (project / "config" / place / ".x.yaml.swp").write_text("")
        (project / "config" / place / "x.yaml~").write_text("")
        os.symlink("somebody@here.1234:5678", project / "config" / place / ".#x.yaml")
    os.symlink("somebody@here.1234:5678", project / "config/reference/.#fedsmoo2023_T1.csv")
    mine = plan.load(project)
    assert list(mine.tables) == list(plan.load(ROOT).tables) and mine.errata.entries


def test_a_path_may_begin_at_home_and_is_not_taken_for_another_kind(tmp_path, monkeypatch):
    def data(path: str) -> dict:
        return {"scale": "preview", "tables": [], "figures": [], "data": {"cifar10": {"source": "npz", "path": path}}}

    monkeypatch.setenv("HOME", str(tmp_path))
    np.savez(tmp_path / "own.npz", train_images=np.zeros(1))
    mine = plan.load(ROOT, data("~/own.npz"))
    assert run_specs.dataset_spec(mine.catalog, "cifar10").source.path == str(tmp_path / "own.npz")
    (tmp_path / "folder").mkdir()
    for path, what in (("~/folder", "is a folder"), ("~/absent.npz", "does not exist")):
        with pytest.raises(ConfigError, match=f"data.cifar10.path: '{path}' {what}; expected: a file with"):
            plan.load(ROOT, data(path)).check()


def test_the_styles_that_the_catalog_knows_are_those_that_are_drawn() -> None:
    entry = {"source": {"source": "sklearn", "test": 1, "expand": "styles"}, "domains": ["plain", "blured"]}
    entry |= {"classes": 2, "shape": [1, 8, 8], "train": 1, "test": 1, "mean": [0.5], "std": [0.5]}
    message = r"d\.domains\[1\]: \"blured\" is not allowed; did you mean 'blurred'"
    with pytest.raises(ConfigError, match=message) as caught:
        DATASETS.check({"d": entry}, "file")
    assert str(caught.value).partition("known: ")[2].split(", ") == sorted(digits.STYLES)


def test_a_protocol_without_algorithms_and_targets_has_every_ones_defaults(project: Path) -> None:
    path = project / "config/protocols/fedsmoo-cifar10.yaml"
    protocol = yaml.safe_load(path.read_text())
    for key in ("algorithms", "targets", "searched", "tune", "variants"):
        protocol.pop(key, None)
        protocol["preview"].pop(key, None)
    path.with_name("plain.yaml").write_text(yaml.safe_dump(protocol))
    table = {"title": "t", "paper": "p", "reference": "none", "reason": "r", "rows": ["fedavg", "fedsmoo"]}
    column = {"protocol": "plain", "splits": ["dir0.6-100"]}
    own = project / "config/tables/plain.yaml"
    own.write_text(yaml.safe_dump({**table, "metric": "test_accuracy", "unit": "percent", "columns": [column]}))
    exp = plan.load(project)
    for scale in ("preview", "paper"):
        runs = {run.algorithm: run for run in made.table_runs(exp, scale, "plain")}
        declared = algorithms.load("fedsmoo").parameters()
        params = runs["fedsmoo"].config.update.params
        assert params == {name: parameter.default for name, parameter in declared.items()}
        assert runs["fedavg"].config.learning_rate == runs["fedsmoo"].config.learning_rate
    rounds = {"metric": "rounds_to_target", "unit": "rounds"}
    own.write_text(yaml.safe_dump({**table, **rounds, "columns": [{**column, **rounds, "targets": ["t1"]}]}))
    with pytest.raises(ConfigError, match=r"no targets for split 'dir0\.6-100'; it has some for: none"):
        plan.load(project).check()


def test_editors_find_the_schemas_of_the_documents(tmp_path: Path) -> None:
    """`flatfed schema` writes them; they accept the shipped files and name their keys."""
    assert cli.main(["schema", "--out", str(tmp_path)]) == 0
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert written == {path.name: path.read_text() for path in (ROOT / "config/.schema").iterdir()}
    files = list((ROOT / "config").rglob("*.yaml"))
    for path in files:
        first = path.read_text(encoding="utf-8").partition("\n")[0]
        schema = json.loads((path.parent / first.removeprefix("# yaml-language-server: $schema=")).read_text())
        jsonschema.validate(strict_yaml.read(path, path.name), schema)
    assert len(files) > 60 and "rounds between evaluations" in written["protocol.json"]
