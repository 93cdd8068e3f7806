"""How the configuration is read: YAML 1.2, anchors, values of the command line, files that are none, schemas."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import made
from flatfed import cli, plan
from flatfed.cli import parser
from flatfed.commands import configuration
from flatfed.config import strict_yaml
from flatfed.config.datasets import DATASETS, STYLES
from flatfed.data import sources
from flatfed.errors import ConfigError
from repository import ROOT


def read(folder: Path, content: bytes | str):
    path = folder / "f.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return strict_yaml.read(path, "f")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a: \xe9".encode("latin-1"), "not UTF-8: byte 3 is 0xe9"),
        ("a: 1".encode("utf-16"), "not UTF-8: byte 0 is 0xff"),
        (b"a: \x01", "not YAML"),
        (None, "cannot be read: Is a directory"),
    ],
    ids=["latin-1", "UTF-16", "control character", "folder"],
)
def test_a_file_that_is_no_text(content: bytes | None, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"f: {words}"):
        strict_yaml.read(tmp_path, "f") if content is None else read(tmp_path, content)


def test_plain_words_are_those_of_yaml_1_2(tmp_path: Path) -> None:
    texts = ["yes", "No", "on", "010", "0x10", "1:30", "1_000", "2023-01-01", "1e", ".e1"]
    others = {"true": True, "FALSE": False, "~": None, "null": None, "1e-3": 1e-3, "5E2": 500.0}
    others |= {"1.": 1.0, ".5": 0.5, "-7": -7, "+1": 1}
    assert read(tmp_path, f"[{', '.join([*texts, *others])}]") == [*texts, *others.values()]
    assert read(tmp_path, b"\xef\xbb\xbfa: 1\r\nb: [x, y]\r\n") == {"a": 1, "b": ["x", "y"]}, "as written on Windows"


def test_anchors_merges_and_editors_files(tmp_path: Path) -> None:
    root = made.edited(tmp_path, "splits.yaml", lambda content: None)
    with (root / "config" / "splits.yaml").open("a") as file:
        file.write("a: &a {label: [A], scheme: dirichlet, alpha: 5e-1, clients: 10, participation: 1}\n")
        file.write("b: {<<: *a, clients: 20}\n")
    for place in ("tables", "figures", "protocols"):
        (root / "config" / place / ".x.yaml.swp").write_text("")
        (root / "config" / place / "x.yaml~").write_text("")
        os.symlink("somebody@here.1234:5678", root / "config" / place / ".#x.yaml")
    os.symlink("somebody@here.1234:5678", root / "config/reference/.#fedsmoo2023_T1.csv")
    exp = plan.load(root)
    splits = [exp.catalog.splits[name] for name in "ab"]
    assert [(split.clients, split.alpha) for split in splits] == [(10, 0.5), (20, 0.5)]
    assert "x" not in exp.tables and exp.errata.entries


def test_values_are_given_as_to_snakemake(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "own.yaml"
    own.write_text("scale: preview\ntables: [fedsmoo2023_T1]\nfigures: []\n")
    expected = {"scale": "paper", "tables": ["fedsmoo2023_T1"], "figures": [], "seeds": [3]}
    for parts in ([str(own), "scale=paper", "seeds=[3]"], ["scale=paper", "seeds=[3]", str(own)]):
        assert configuration.read(parts) == expected
    assert configuration.read(["data={cifar10: {source: npz, path: a=b.npz}}"])["data"]["cifar10"]["path"] == "a=b.npz"
    for parts, words in ((["seeds=[1"], r"--config: seeds=\[1: not YAML"), ([str(own), "b.yaml"], "expected one file")):
        with pytest.raises(ConfigError, match=words):
            configuration.read(parts)
    for words in (
        ["T1", "T2", "--config", "own.yaml", "scale=paper"],
        ["--config", "own.yaml", "scale=paper", "T1", "T2"],
        ["--config", "own.yaml", "--config", "scale=paper", "--", "T1", "T2"],
    ):
        arguments = parser().parse_args(["status", *words])
        assert (arguments.tables, arguments.config) == (["T1", "T2"], ["own.yaml", "scale=paper"])


def test_the_styles_that_the_catalog_knows_are_those_that_are_drawn() -> None:
    entry = {"source": {"source": "sklearn", "test": 1, "expand": "styles"}, "domains": ["plain", "blured"]}
    entry |= {"classes": 2, "shape": [1, 8, 8], "train": 1, "test": 1, "mean": [0.5], "std": [0.5]}
    with pytest.raises(ConfigError, match=r"d\.domains\[1\]: \"blured\" .*did you mean 'blurred'") as caught:
        DATASETS.check({"d": entry}, "file")
    assert str(caught.value).partition("known: ")[2].split(", ") == sorted(STYLES)
    with np.load(sources.DIGITS, allow_pickle=False) as file:
        assert {*file.files} == {*STYLES, "labels"}


def test_editors_find_the_schemas_of_the_documents(tmp_path: Path) -> None:
    """`flatfed schema` writes them; they accept a shipped file of each kind and name its keys."""
    assert cli.main(["schema", "--out", str(tmp_path)]) == 0
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert written == {path.name: path.read_text() for path in (ROOT / "config/.schema").iterdir()}
    files = {}
    for path in (ROOT / "config").rglob("*.yaml"):
        first = path.read_text(encoding="utf-8").partition("\n")[0]
        schema = path.parent / first.removeprefix("# yaml-language-server: $schema=")
        files[schema.resolve()] = path
    assert {schema.name for schema in files} == written.keys()
    for schema, path in files.items():
        jsonschema.validate(strict_yaml.read(path, path.name), json.loads(schema.read_text()))
    assert "rounds between evaluations" in written["protocol.json"]
