"""The command line: every page of help teaches, every mistake is one message and exit status 2."""

import json
import os
import re
import subprocess
import sys

import pytest

from flatfed import __version__, cli
from flatfed.cli import parser
from flatfed.commands import COMMANDS
from flatfed.errors import DataError
from repository import ROOT


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_shows_an_example_that_parses(command, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("run", "dataset", "partition"):
        (tmp_path / f"{name}.json").write_text("{}")
    with pytest.raises(SystemExit) as end:
        cli.main([command, "--help"])
    assert end.value.code == 0
    example = capsys.readouterr().out.partition("example:")[2]
    calls = [line for line in example.replace("\\\n", " ").splitlines() if "-m flatfed" in line]
    assert calls
    for call in calls:
        import shlex

        words = shlex.split(call.partition("-m flatfed")[2].partition(" > ")[0].replace("$RUN", "results/run"))
        assert parser().parse_args(words).command == words[0]


def shown(capsys, *words):
    """Return what a call prints that ends with status 0 before it runs a command."""
    with pytest.raises(SystemExit) as end:
        cli.main(words)
    assert end.value.code == 0
    return capsys.readouterr().out


def test_help_of_a_command_and_the_version(capsys):
    assert shown(capsys, "help", "verify") == shown(capsys, "verify", "--help")
    assert shown(capsys, "--version") == f"flatfed {__version__}\n"


def test_a_refusal_is_one_message(monkeypatch, capsys):
    def refuse(options):
        raise DataError("x.npz: is damaged")

    monkeypatch.setattr("flatfed.commands.check.run", refuse)
    assert cli.main(["check"]) == 2
    assert capsys.readouterr().err == "flatfed check: x.npz: is damaged\n"


def test_an_interruption_is_said(monkeypatch, capsys):
    def interrupt(options):
        raise KeyboardInterrupt

    monkeypatch.setattr("flatfed.commands.check.run", interrupt)
    assert cli.main(["check"]) == 130
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("nowhere.json", "neither JSON nor a readable JSON file: [Errno 2]"),
        ('{"a": }', "neither JSON nor a readable JSON file: Expecting value"),
    ],
)
def test_what_is_not_json_is_said(argument, words, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["fetch", "--spec", argument, "--out", "data"])
    assert end.value.code == 2
    assert words in capsys.readouterr().err


def test_json_may_be_inline_or_in_a_file(tmp_path):
    file = tmp_path / "spec.json"
    file.write_text(json.dumps({"a": 1}))
    for argument in ('{"a": 1}', str(file)):
        assert parser().parse_args(["fetch", "--spec", argument, "--out", "x"]).spec == {"a": 1}


def test_a_list_is_no_specification(tmp_path, capsys):
    file = tmp_path / "spec.json"
    file.write_text("[1]")
    with pytest.raises(SystemExit):
        cli.main(["fetch", "--spec", str(file), "--out", "x"])
    assert re.search("expected a JSON object, not list", capsys.readouterr().err)


@pytest.mark.parametrize("threads", ["0", "-1", "two", "1.5"])
def test_threads_are_counted_from_one(threads, capsys):
    with pytest.raises(SystemExit):
        cli.main(["hessian", "run", "--dataset", "d", "--partition", "p", "--out", "o.json", "--threads", threads])
    assert "above 0" in capsys.readouterr().err


def called(script, *command, **more):
    """Return what a bash ``script`` does in which $F is ``python -m flatfed``."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "F": f"{sys.executable} -m flatfed"}
    return subprocess.run(
        ["bash", "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, **more
    )


@pytest.mark.parametrize("reader", ["true", "head -n 1"])
@pytest.mark.parametrize("command", ["--help", "plan --help", "status --scale paper", "plan --all 2>&1"])
def test_a_reader_that_has_seen_enough_ends_a_command_quietly(command, reader):
    done = called(f"$F {command} | {reader}; echo ${{PIPESTATUS[@]}} >&2")
    said = done.stderr.splitlines()
    assert len(said) == 1, done.stderr
    statuses = said[0].split()
    assert statuses[0] in ("141", "0") and statuses[1] == "0"
    if reader == "true" and command.startswith(("status", "plan --all")):
        assert statuses[0] == "141", "the reader was gone before the command could say a word"


#: ``python -m flatfed plan --all``, interrupted when it is about to import the module that is named first.
CTRL_C = """
import os, runpy, signal, sys
place = sys.argv[1]

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == place:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv = ["flatfed", "plan", "--all"]
runpy.run_module("flatfed", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("flatfed.cli", ""),
        ("flatfed.commands.kinds", ""),  # before it is known which command
        ("flatfed.commands.plan", "flatfed plan: interrupted\n"),
        ("flatfed.commands.plan_measured", "flatfed plan: interrupted\n"),
    ],
)
def test_ctrl_c_leaves_no_trace(place, said):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", CTRL_C, place], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (130, said)


@pytest.mark.parametrize("given", [[], ["scale=preview"]])
def test_a_configuration_that_is_a_list_is_none(given, tmp_path, capsys):
    (tmp_path / "list.yaml").write_text("- scale\n- tables\n")
    assert cli.main(["check", "--config", str(tmp_path / "list.yaml"), *given]) == 2
    assert "list.yaml: expected keys with values, such as `scale: preview`, not a list" in capsys.readouterr().err


def test_what_is_nested_too_deeply_is_not_json(capsys):
    with pytest.raises(SystemExit):
        cli.main(["fetch", "--spec", '{"a": ' * 100_000, "--out", "x"])
    assert "neither JSON nor a readable JSON file" in capsys.readouterr().err
