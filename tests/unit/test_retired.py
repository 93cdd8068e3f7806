"""Every retired name is refused in one line that names its replacement."""

from __future__ import annotations

import pytest

from flatfed import algorithms, cli, schemas
from flatfed.algorithms import _hooks
from flatfed.algorithms._base import Algorithm
from flatfed.errors import ConfigError
from flatfed.retired import RETIRED

#: Option -> the command that had it.
COMMANDS = {"--density-vectors": "hessian", "--steps": "hessian", "--with": "surface"}
#: Hyper-parameter -> an algorithm that has it.
OWNERS = {"direction": "fedlesam", "first": "fedlesam", "average": "fedspeed"}


@pytest.mark.parametrize(("kind", "name"), [key for key in RETIRED if key[0] in ("command", "option")])
def test_a_retired_command_or_option_is_refused(kind, name, capsys):
    command = [name] if kind == "command" else [COMMANDS.get(name, "plan"), name, "1"]
    if out := {"hessian": "h.json", "surface": "s.npz"}.get(command[0]):
        command += ["run", "--dataset", "d", "--partition", "p", "--out", out]
    with pytest.raises(SystemExit) as ended:
        cli.main(command)
    assert ended.value.code == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert f"{kind} {name!r} is retired: {RETIRED[kind, name]}" in last


@pytest.mark.parametrize("name", [name for kind, name in RETIRED if kind == "value" and ": " in name])
def test_a_retired_choice_is_refused(name):
    parameter, _, value = name.partition(": ")
    with pytest.raises(ConfigError, match=f"{name}' is retired: {RETIRED['value', name]}"):
        algorithms.made(OWNERS[parameter], {parameter: value})


@pytest.mark.parametrize(
    ("kind", "name"), [key for key in RETIRED if key[0] in ("key", "value") and ": " not in key[1]]
)
def test_a_retired_key_or_value_is_refused(kind, name):
    assert RETIRED[kind, name] in schemas._unless_retired(kind, name, ["other"], "file.yaml")


def test_a_retired_attribute_of_an_algorithm_is_refused():
    class Mine(Algorithm):
        alike = True

    with pytest.raises(ConfigError, match=r"Mine\.alike: attribute 'alike' is retired: declare `whole_rows`"):
        _hooks.check(Mine)
