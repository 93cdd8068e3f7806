"""What somebody reads who slipped: the nearest command, target, split; a folder for a file; an editor's lock file."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from flatfed import cli, experiment
from flatfed.cli import parser
from flatfed.commands import configuration
from flatfed.errors import ConfigError
from flatfed.experiment import run_specs
from flatfed.workflow import requested

ROOT = Path(__file__).resolve().parents[2]
PROTOCOL = "fedsmoo-cifar10"


def said(capsys, *words: str) -> str:
    """Return what the command line says of ``words``, which it refuses."""
    with pytest.raises(SystemExit) as end:
        cli.main(words)
    assert end.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("trian",), "argument COMMAND: unknown command 'trian'; did you mean 'train'? known: cell, check, "),
        (("verify", "--scale", "papr"), "argument --scale: unknown value 'papr'; did you mean 'paper'?"),
        (
            ("hessian", "r", "--residual", "nan"),
            "argument --residual: 'nan': a number from 0 to 1 is wanted",
        ),
        (("plan", "--config", "fedsmoo2023_T1"), "argument --config: 'fedsmoo2023_T1' is neither KEY=VALUE nor a YAML"),
    ],
)
def test_a_slip_on_the_command_line(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    assert message in said(capsys, *words)


def test_values_of_the_configuration_are_given_as_to_snakemake(tmp_path, monkeypatch, capsys):
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
    with pytest.raises(ConfigError, match="one file is wanted, and KEY=VALUE"):
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


@pytest.fixture(scope="module")
def exp() -> experiment.Experiment:
    return experiment.load(ROOT)


@pytest.mark.parametrize(
    ("split", "near"), [("dir0.7-100", "dir0.6-100"), ("path4-100", "path3-100"), ("dir0.1-150", "dir0.1-200")]
)
def test_an_unknown_split_is_told_the_nearest_of_the_same_parameter(exp, split, near):
    with pytest.raises(ConfigError, match=f"unknown split '{split}'; did you mean '{near}'"):
        run_specs.run(exp, "paper", PROTOCOL, split, "fedavg", 1)


def test_an_unknown_algorithm_is_told_where_ones_own_are_found(exp):
    with pytest.raises(
        ConfigError,
        match=r"unknown algorithm 'fedmedian'.*src/flatfed/algorithms, and folders of your own that `algorithm_f",
    ):
        run_specs.run(exp, "paper", PROTOCOL, "dir0.6-100", "fedmedian", 1)


def test_of_many_ids_a_message_names_the_nearest_three_and_their_files(exp):
    with pytest.raises(ConfigError) as problem:
        run_specs.run(exp, "paper", PROTOCOL, "dir0.6-100", "fedyn", 1)
    near = rf"mean 'feddyn'\? or \S+, \S+; all {len(exp.catalog.algorithms)}: config/algorithms\*, src/flatfed/alg"
    assert re.search(near, str(problem.value)) and len(str(problem.value)) < 300
    assert str(problem.value).count("feddyn") == 1
    with pytest.raises(ConfigError, match=r"unknown algorithm 'xyz'; nearest: [^ ,]+, [^ ,]+, [^ ,]+; all "):
        run_specs.run(exp, "paper", PROTOCOL, "dir0.6-100", "xyz", 1)
    with pytest.raises(ConfigError, match=r"unknown dataset 'cifar'; did you mean 'cifar10'\? known: .*cifar100, "):
        run_specs.dataset_spec(exp.catalog, "cifar")


@pytest.mark.parametrize("key", ["algorithm_folders", "model_folders", "table_folders"])
def test_a_folder_that_does_not_exist_is_named_with_its_key_and_the_remedy(key):
    with pytest.raises(ConfigError) as problem:
        experiment.load(ROOT, {"scale": "preview", "tables": [], "figures": [], key: ["mine"]})
    remedy = f"there is no folder 'mine' ({Path('mine').resolve()}); create it, or correct or remove this entry"
    assert str(problem.value) == f"config/config.yaml or --config: {key}: {remedy}"


RULES = ("all", "everything", "report")


def test_a_target_that_is_like_none_may_be_of_a_rule_of_the_users(exp):
    requested.refuse(exp, "my/own.txt", RULES)
    with pytest.raises(ConfigError, match="target 'results/qqq': no rule makes it; "):
        requested.refuse(exp, "results/qqq", RULES)


@pytest.mark.parametrize(
    ("target", "near"),
    [
        ("everythin", "everything"),
        ("results/preview/tables/fedsmoo2023_T1.mdd", "results/preview/tables/fedsmoo2023_T1.md"),
        ("results/paper/figure/fedsmoo2023_F7.png", "results/paper/figures/fedsmoo2023_F7.png"),
        ("results/preview/reprot.html", "results/preview/report.html"),
        ("fedsmoo2023_T1", "results/preview/tables/fedsmoo2023_T1.csv"),
        ("fedsmoo2023_F7.png", "results/preview/figures/fedsmoo2023_F7.png"),
        ("tables/fedsmoo2023_T1.md", "results/paper/tables/fedsmoo2023_T1.md"),
    ],
)
def test_an_unknown_target_is_told_the_nearest(exp, target, near):
    with pytest.raises(ConfigError) as problem:
        requested.refuse(exp, target, RULES)
    assert f"target {target!r}: no rule makes it; did you mean {near!r}?" in str(problem.value)


def copied(folder: Path) -> Path:
    shutil.copytree(ROOT / "config", folder / "config")
    return folder


def test_editors_files_in_the_folders_of_the_configuration_are_no_tables(tmp_path, exp):
    root = copied(tmp_path)
    for place in ("tables", "figures", "protocols"):
        (root / "config" / place / ".x.yaml.swp").write_text("")
        (root / "config" / place / "x.yaml~").write_text("")
        os.symlink("somebody@here.1234:5678", root / "config" / place / ".#x.yaml")
    os.symlink("somebody@here.1234:5678", root / "config/reference/.#fedsmoo2023_T1.csv")
    mine = experiment.load(root)
    assert list(mine.tables) == list(exp.tables) and mine.errata.entries


def test_a_printed_number_of_an_unknown_algorithm_is_named(tmp_path):
    root = copied(tmp_path)
    path = root / "config/reference/fedsmoo2023_T1.csv"
    lines = path.read_text().splitlines(keepends=True)
    lines[4] = lines[4].replace(",fedavg,", ",fedavgg,")
    path.write_text("".join(lines))
    with pytest.raises(
        ConfigError, match=r"fedsmoo2023_T1.csv: line 5 \(of .*unknown algorithm 'fedavgg'; did you mean"
    ):
        experiment.load(root).check()


def data(path: str) -> dict:
    return {"scale": "preview", "tables": [], "figures": [], "data": {"cifar10": {"source": "npz", "path": path}}}


def test_a_path_may_begin_at_home_and_is_not_taken_for_another_kind(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    np.savez(tmp_path / "own.npz", train_images=np.zeros(1))
    mine = experiment.load(ROOT, data("~/own.npz"))
    assert run_specs.dataset_spec(mine.catalog, "cifar10")["source"]["path"] == str(tmp_path / "own.npz")
    (tmp_path / "folder").mkdir()
    for path, what in (("~/folder", "is a folder"), ("~/absent.npz", "does not exist")):
        with pytest.raises(ConfigError, match=f"data.cifar10.path: '{path}' {what}; wanted: a file with train_images"):
            experiment.load(ROOT, data(path)).check()
