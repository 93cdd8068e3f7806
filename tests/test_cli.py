"""The command line: every page of help has an example that parses; every mistake is one message and exit status 2."""

import os
import shlex
import subprocess
import sys

import pytest

from flatfed import __version__
from flatfed.cli import parser
from flatfed.commands import COMMANDS, configuration
from repository import ROOT, SRC


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_shows_an_example_that_parses(command, call, tmp_path, monkeypatch):
    assert call("--version") == (0, f"flatfed {__version__}\n", "")
    monkeypatch.chdir(tmp_path)
    for name in ("run", "dataset", "partition"):
        (tmp_path / f"{name}.json").write_text("{}")
    status, text, _ = call(command, "--help")
    assert status == 0 and call("help", command) == (0, text, "")
    lines = text.partition("example:")[2].replace("\\\n", " ").splitlines()
    examples = [line.partition("flatfed ")[2].partition(" > ")[0] for line in lines if "  flatfed " in line]
    assert examples
    for example in examples:
        words = shlex.split(example.replace("$RUN", "results/run"))
        assert parser().parse_args(words).command == words[0]


HESSIAN = ("hessian", "run", "--dataset", "d", "--partition", "p", "--out", "o.json")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("fetch", "--spec", '{"a": ' * 100_000, "--out", "data"), "neither JSON nor a readable JSON file"),
        ((*HESSIAN, "--threads", "0"), "above 0"),
        ((*HESSIAN, "--threads", "1.5"), "above 0"),
        (("check", "--config", "list.json"), "list.json: expected keys with values, such as `scale: preview`, not a l"),
        (("check", "--config", "list.json", "scale=preview"), "list.json: expected keys with values"),
    ],
)
def test_a_wrong_argument_is_refused(words, message, tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "list.json").write_text("[1]")
    status, _, text = call(*words)
    assert status == 2 and message in text


def test_a_wrong_argument_is_answered_with_the_usage_of_the_command(call):
    status, _, text = call("check", "--scal")
    assert status == 2 and text.startswith("usage: flatfed check [-h]")
    assert text.endswith("flatfed check: error: unrecognized arguments: --scal\n")


def process(*command):
    """Run a ``command`` in the repository, in which $F is ``python -m flatfed``."""
    environment = {**os.environ, "PYTHONPATH": str(SRC), "F": f"{sys.executable} -m flatfed"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900, check=False)


@pytest.mark.parametrize("words", [("check",), ("verify", "fedsmoo2023_T1"), ("new", "mine")])
def test_a_command_outside_a_clone_says_that_flatfed_runs_from_one(words, tmp_path, monkeypatch, call):
    monkeypatch.setattr(configuration, "HOME", tmp_path)
    monkeypatch.chdir(tmp_path)
    status, _, text = call(*words)
    assert (status, text.count("\n")) == (2, 1) and text.startswith(f"flatfed {words[0]}: FlatFed runs from a clone")


@pytest.mark.parametrize("reader", ["true", "head -n 1"])
def test_a_reader_that_has_seen_enough_ends_a_command_quietly(reader):
    """A reader of no line is gone before the command prints its first; 141: the command ended on SIGPIPE."""
    done = process("bash", "-c", f"$F status --scale paper | {reader}; echo ${{PIPESTATUS[@]}} >&2")
    assert done.stderr in ("141 0\n", *(["0 0\n"] if reader != "true" else []))


#: ``python -m flatfed plan --all``, interrupted when it is about to import the module that is named first.
CTRL_C = """
import os, runpy, signal, sys
module = sys.argv[1]

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv = ["flatfed", "plan", "--all"]
runpy.run_module("flatfed", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    "words", [["-OO", "-c", "from flatfed import cli; cli.main(['fetch', '--help'])"], ["-c", "import flatfed.figures"]]
)
def test_python_without_docstrings_and_a_notebooks_backend(words):
    environment = {**os.environ, "PYTHONPATH": str(SRC), "MPLBACKEND": "module://absent"}
    done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("module", "message"), [("flatfed.cli", ""), ("flatfed.commands.plan", "flatfed plan: interrupted\n")]
)
def test_ctrl_c_leaves_no_trace(module, message):
    """Also before the command is known."""
    done = process(sys.executable, "-c", CTRL_C, module)
    assert (done.returncode, done.stderr) == (130, message)
