"""Every mistake of mistakes.py ends with one message, and nothing is written."""

from __future__ import annotations

import json
import re
import shutil
import typing
from pathlib import Path

import pytest
from mistakes import (
    COMMANDS,
    DATASETS,
    DEALS,
    DIGITS,
    FILES,
    OWN,
    PARTITIONS,
    ROOT,
    RUNS,
    TARGETS,
    VALUES,
    YAML,
)  # fmt: skip

import made
import own_files
from flatfed import cli, plan
from flatfed.config import strict_yaml
from flatfed.config.datasets import Source
from flatfed.data import keys, sources
from flatfed.data.schemes import SCHEMES
from flatfed.errors import ConfigError
from flatfed.plan import at_scale, run_specs
from flatfed.plan.contradictions import Errata
from flatfed.snakemake_support import requested
from shipped import EXP


@pytest.fixture(scope="module")
def copied(tmp_path_factory) -> Path:
    """A folder with a copy of config/."""
    root = tmp_path_factory.mktemp("mistakes")
    shutil.copytree(ROOT / "config", root / "config")
    return root


@pytest.fixture
def edited(copied):
    """Return a function that replaces text of a file under config/; afterwards the file is as before."""
    before = {}

    def edit(file: str, text: str | None, other: str) -> Path:
        path = copied / "config" / file
        before[path] = path.read_bytes()
        content = before[path].decode()
        changed = content + other if text == "" else other if text is None else content.replace(text, other, 1)
        assert changed != content, f"{file} has no {text!r}"
        path.write_bytes(changed.encode("utf-8", "surrogateescape"))
        return copied

    yield edit
    for path, content in before.items():
        path.write_bytes(content)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder that commands are called in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def assert_one_line_has(message: str, fragments) -> None:
    assert any(all(fragment in line for fragment in fragments) for line in message.splitlines()), message


@pytest.mark.parametrize("name", FILES)
def test_in_a_file_of_the_configuration(name, edited):
    *change, fragments = FILES[name]
    root = edited(*change)
    with pytest.raises(ConfigError) as caught:
        plan.load(root).check()
        Errata(root)
    assert_one_line_has(str(caught.value), fragments)
    assert all(line.startswith("config/") for line in str(caught.value).splitlines()), "one line for each mistake"


@pytest.mark.parametrize("name", VALUES)
def test_in_the_values_of_the_configuration(name):
    change, fragments = VALUES[name]
    with pytest.raises(ConfigError) as caught:
        plan.load(ROOT, {"scale": "preview", "tables": [], "figures": [], **change}).check()
    assert_one_line_has(str(caught.value), ["config/config.yaml or --config", *fragments])


@pytest.mark.parametrize("content", YAML, ids=lambda content: content[:40])
def test_in_yaml(content, tmp_path):
    path = tmp_path / "f.yaml"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError) as caught:
        strict_yaml.read(path, "f")
    message = str(caught.value)
    assert message.startswith("f: ") and YAML[content] in message and "\n" not in message and len(message) < 500


@pytest.mark.parametrize("name", OWN)
def test_in_a_file_of_ones_own(name, here):
    path, value, *fragments = OWN[name]
    own_files.photos(here)
    message = own_files.refusal(change=own_files.put(*path, value=value))
    assert_one_line_has(message, ["own/photos.yaml", *fragments])


@pytest.mark.parametrize("name", RUNS)
def test_in_the_name_of_a_run(name):
    question, *fragments = RUNS[name]
    with pytest.raises(ConfigError) as caught:
        run_specs.run(EXP, *question, 1)
    assert_one_line_has(str(caught.value), fragments)
    assert len(str(caught.value)) < 350, "the nearest of many, not all"


@pytest.mark.parametrize("name", TARGETS)
def test_in_a_target(name):
    target, fragment = TARGETS[name]
    with pytest.raises(ConfigError) as caught:
        requested.refuse(EXP, target, ("all", "everything", "report"))
    assert_one_line_has(str(caught.value), [fragment])


def test_a_target_that_is_like_none_may_be_of_a_rule_of_the_users():
    requested.refuse(EXP, "my/own.txt", ("all", "everything", "report"))


@pytest.mark.parametrize("name", COMMANDS)
def test_on_the_command_line(name, here, capsys):
    words, fragment = COMMANDS[name]
    with pytest.raises(SystemExit) as end:
        cli.main(words)
    assert end.value.code == 2 and fragment in capsys.readouterr().err


def refused(capsys, *command: object) -> str:
    """Call a command, which must say one line and leave everything as it is; return the line."""
    before = sorted(Path().rglob("*"))
    try:
        assert cli.main([str(word) for word in command]) == 2
    except SystemExit as end:  # of a path that is of another kind, before anything is begun
        assert end.code == 2
        said = capsys.readouterr().err.splitlines()[-1]
    else:
        out, said = capsys.readouterr()
        assert not out and said.count("\n") == 1 and said.startswith(f"flatfed {command[0]}: ")
    assert sorted(Path().rglob("*")) == before
    return said


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("resources") / "digits"
    sources.fetch(DIGITS, folder)
    return folder


def changed(spec: dict, change: dict) -> dict:
    """Return ``spec`` with the keys of ``change`` replaced; None takes a key away, also one of `source`."""
    found = {key: value for key, value in {**spec, **change}.items() if value is not None}
    if isinstance(found.get("source"), dict):
        found["source"] = {key: value for key, value in found["source"].items() if value is not None}
    return found


def fetch(change: dict, out: object = "out") -> tuple:
    return "fetch", "--spec", json.dumps(changed(DIGITS, change)), "--out", out


def partition(scheme: str, change: dict, dataset: object, out: object = "clients.npz") -> tuple:
    spec = json.dumps(changed(DEALS[scheme], change))
    return "partition", "--spec", spec, "--dataset", dataset, "--out", out


@pytest.mark.parametrize("name", DATASETS)
def test_in_a_dataset_by_hand(name, here, capsys):
    change, *fragments = DATASETS[name]
    assert_one_line_has(refused(capsys, *fetch(change)), fragments)


@pytest.mark.parametrize("name", PARTITIONS)
def test_in_a_partition_by_hand(name, here, capsys, digits):
    scheme, change, *fragments = PARTITIONS[name]
    assert_one_line_has(refused(capsys, *partition(scheme, change, digits)), fragments)


@pytest.mark.parametrize("scheme", [scheme for scheme in DEALS if scheme != "domain"])
def test_what_is_needed_is_enough(scheme, here, digits):
    assert cli.main([str(word) for word in partition(scheme, {}, digits)]) == 0
    assert Path("clients.npz").exists()


def test_a_file_for_a_folder_and_a_folder_for_a_file(here, capsys, digits):
    Path("file").write_text("kept")
    Path("folder").mkdir()
    wanted = "expected a folder with dataset.json, images.npy and labels.npy, which `flatfed fetch` m"
    for dataset, said in {
        "file": "file: is a file; expected a folder",
        "nowhere": f"nowhere: does not exist; {wanted}",
        "folder": "folder: cannot be read as a dataset",
    }.items():
        assert said in refused(capsys, *partition("iid", {}, dataset))
    for out in ("folder", "file/clients.npz", "file/deeper/clients.npz"):
        assert out.partition("/")[0] in refused(capsys, *partition("iid", {}, digits, out))
    for out in ("file", "file/below"):
        assert "file" in refused(capsys, *fetch({}, out))
    for path in ("folder", "nowhere.npz"):
        assert f"{path}: no such file" in refused(capsys, *fetch({"source": {"source": "npz", "path": path}}))
    folder = {"source": {"source": "imagefolder", "path": "file", "size": 8}}
    assert "no folder file/train; expected the layout" in refused(capsys, *fetch(folder))
    assert Path("file").read_text() == "kept"


def test_what_the_configuration_asks_for_is_whole():
    """Every dataset and every partition of every protocol and split that fit each other, at both scales."""
    for name in EXP.catalog.datasets:
        keys.check_dataset(run_specs.dataset_spec(EXP.catalog, name).as_written())
    runs = [
        run
        for scale in plan.SCALES
        for table in EXP.all_at(scale).tables
        for run in made.table_runs(EXP, scale, table)
    ]
    for figure in EXP.figures:
        for scale in plan.SCALES:
            runs += at_scale.figure(EXP, scale, figure).runs.values()
    for run in runs:
        keys.check_partition({"seed": run.seed, **run.config.partition.as_written()})
    assert {run.config.partition.scheme for run in runs} >= {*SCHEMES, "domain"} - {"central"}
    assert set(typing.get_args(keys.PartitionSpecification.model_fields["scheme"].annotation)) == {*SCHEMES, "domain"}
    assert set(typing.get_args(Source.model_fields["source"].annotation)) == set(sources.SOURCES)


@pytest.mark.parametrize(
    ("file", "text", "other", "words"),
    [
        ("splits.yaml", "0.1, clients: 100", "0.1, clients: 0", "dir0.1-100.clients: 0 is not"),
        ("splits.yaml", "scheme: dirichlet, alpha: 0.1", "alpha: 0.1", "'scheme' is missing"),
        ("algorithms.yaml", "{label: FedDyn}", "{lable: FedDyn}", "feddyn: unknown key 'lable'"),
        ("algorithms.yaml", "{label: FedDyn}", "3", "feddyn: 3 is a number"),
        ("datasets.yaml", "classes: 100\n", "classes: 1\n", "cifar100.classes: 1 is not"),
    ],
)
def test_a_wrong_entry_stops_the_call_with_one_line(file, text, other, words, edited):
    """Tables and figures that need the entry have the same mistake, which counts once."""
    with pytest.raises(ConfigError, match=re.escape(words)) as caught:
        plan.load(edited(file, text, other))
    assert "\n" not in str(caught.value)


def test_all_mistakes_are_named_at_once(tmp_path):
    shutil.copytree(ROOT / "config", tmp_path / "config")
    changes = {
        "splits.yaml": ("0.1, clients: 100", "0.1, clients: 0"),
        "protocols/fedsam-cifar10.yaml": ("rounds:", "ruonds:"),
        "tables/fedsmoo2023_T1.yaml": (" fedsmoo]", " fedsmo]"),
        "figures/fedsmoo2023_F4.yaml": ("kind: sweep", "kind: sweap"),
    }
    for file, (text, other) in changes.items():
        path = tmp_path / "config" / file
        assert text in path.read_text()
        path.write_text(path.read_text().replace(text, other, 1))
    with pytest.raises(ConfigError) as caught:
        plan.load(tmp_path)
    lines = str(caught.value).splitlines()
    assert all(any(line.startswith(f"config/{file}: ") for line in lines) for file in changes), lines


@pytest.mark.parametrize(
    ("file", "text", "other"),
    [
        ("figures/fedsmoo2023_F4.yaml", "rows: [fedsmoo]\n", "rows: [fedadam]\n"),
        ("figures/dfedsam2023_F6.yaml", '{row: dfedsam, label: "ρ', '{row: dfedavgm, label: "ρ'),
    ],
)
def test_a_parameter_that_a_row_of_a_figure_lacks_is_named(file, text, other, edited):
    root = edited(file, text, other)
    path = root / "config" / file
    path.write_text(re.sub(r"points: .*", "points: [{}]", path.read_text()))
    with pytest.raises(ConfigError, match=r"config/figures.*: (fedadam|dfedavgm) in .*unknown parameter '"):
        at_scale.figure(plan.load(root), "preview", path.stem)
