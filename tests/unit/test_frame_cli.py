"""The command line: every page of help teaches, every mistake is one message and exit status 2."""

import json
import re

import pytest

from flatfed import cli
from flatfed.commands.arguments import parser
from flatfed.errors import DataError


@pytest.mark.parametrize("command", sorted(cli.COMMANDS))
def test_help_shows_an_example_that_parses(command, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("run", "cell", "table", "figure", "report"):
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


def test_a_refusal_is_one_message(monkeypatch, capsys):
    def refuse(options):
        raise DataError("x.npz: is damaged")

    monkeypatch.setitem(cli.COMMANDS, "check", refuse)
    assert cli.main(["check"]) == 2
    assert capsys.readouterr().err == "flatfed check: x.npz: is damaged\n"


def test_an_interruption_is_said(monkeypatch, capsys):
    def interrupt(options):
        raise KeyboardInterrupt

    monkeypatch.setitem(cli.COMMANDS, "check", interrupt)
    assert cli.main(["check"]) == 130
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("nowhere.json", "neither a JSON object nor a readable file"),
        ('{"a": }', "not JSON"),
    ],
)
def test_what_is_not_json_is_said(argument, words, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["cell", "--spec", argument, "--out", "cell.json"])
    assert end.value.code == 2
    assert words in capsys.readouterr().err


def test_json_may_be_inline_or_in_a_file(tmp_path):
    file = tmp_path / "spec.json"
    file.write_text(json.dumps({"a": 1}))
    for argument in ('{"a": 1}', str(file)):
        assert parser().parse_args(["cell", "--spec", argument, "--out", "x"]).spec == {"a": 1}


def test_a_list_is_no_specification(tmp_path, capsys):
    file = tmp_path / "spec.json"
    file.write_text("[1]")
    with pytest.raises(SystemExit):
        cli.main(["cell", "--spec", str(file), "--out", "x"])
    assert re.search("a JSON object is wanted, not list", capsys.readouterr().err)


@pytest.mark.parametrize("threads", ["0", "-1", "two", "1.5"])
def test_threads_are_counted_from_one(threads, capsys):
    with pytest.raises(SystemExit):
        cli.main(["evaluate", "run", "--dataset", "d", "--partition", "p", "--threads", threads])
    assert "above 0" in capsys.readouterr().err
