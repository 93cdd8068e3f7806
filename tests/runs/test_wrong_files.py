"""Every command with something wrong in every place it reads or writes: one message that names it, and no trace."""

import json
import os
import re
import shutil

import pytest

from flatfed import cli
from harness import description, write_problem
from samples import full

DEAL = {"dataset": "problem", "classes": 3, "scheme": "iid", "clients": 6, "seed": 3}
DATA = {"name": "digits", "classes": 10, "shape": [1, 8, 8], "source": {"source": "sklearn", "test": 500}}
TABLE, FIGURE = "fedsmoo2023_T1", "fedsmoo2023_F7"
CONFIG = f"scale: preview\ntables: [{TABLE}]\nfigures: [{FIGURE}]\n"

#: Command -> a call of it that works, apart from what it writes. Words that are names of ``FILES`` are read.
CALLS = {
    "fetch": "--spec data.json --out new",
    "partition": "--spec deal.json --dataset data --out new.npz",
    "train": "--run run.d.json --dataset data --partition dealt.npz --out new",
    "hessian": "run --dataset data --partition dealt.npz --out new.json",
    "surface": "run --dataset data --partition dealt.npz --out new.npz",
    "cell": f"{TABLE} cifar10-dir0.6-100 fedavg --config config.yaml --out new.json",
    "table": f"{TABLE} --config config.yaml --out new",
    "figure": f"{FIGURE} --config config.yaml --out new",
    "report": "--config config.yaml --out new.html",
    "describe": "--config config.yaml results/preview/runs/fedsmoo-cifar10/dir0.6-100/fedavg/seed1",
    "check": "--config config.yaml",
    "verify": "--config config.yaml",
    "time": "--run run.d.json --dataset data --partition dealt.npz --out new.json --rounds 1",
    "plan": "--config config.yaml",
    "rerun": "run --dataset data --out new",
    "status": "--config config.yaml",
}

DEALT = "partition --spec deal.json --dataset data --out dealt.npz"
TRAINED = "train --run run.d.json --dataset data --partition dealt.npz --out run --device cpu"

#: What stands in place of a file, of a folder, and of what is to be written.
FOR_FILE = {
    **{"nothing": None, "a folder": {}, "no content": b"", "cut JSON": b'{"a": ', "{}": b"{}", "[]": b"[]"},
    **{"null": b"null", "bytes": bytes(range(256)), "in a file": "above"},
}
FOR_FOLDER = {"nothing": None, "a file": b"text", "an empty folder": {}, "in a file": "above"}

#: What `make test` puts in place of files and folders.
SAMPLE = ("nothing", "cut JSON", "null", "a file")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with everything that the calls read, a finished run among it."""
    root = tmp_path_factory.mktemp("whole")
    write_problem(root)
    (root / "config.yaml").write_text(CONFIG)
    about = description("fedavg", partition=DEAL, precision="float32", rounds=2)
    for name, spec in {"run.d": about, "deal": DEAL, "data": DATA}.items():
        (root / f"{name}.json").write_text(json.dumps(spec))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        assert cli.main(DEALT.split()) == cli.main(TRAINED.split()) == 0
    return root


@pytest.fixture
def place(whole, tmp_path, monkeypatch):
    """A copy of that folder on an idle machine: `flatfed time` prints a line on a busy one."""
    folder = tmp_path / "here"
    shutil.copytree(whole, folder, symlinks=True)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    return folder


def cases():
    """Yield (command, word of its call, what stands in its place) of all that has to be refused."""
    for command, call in CALLS.items():
        for word in dict.fromkeys(call.split()):
            is_file = bool(re.search(r"\.[a-z]+$", word))
            if not is_file and word not in ("data", "run", "new"):
                continue
            for name, content in (FOR_FILE if is_file else FOR_FOLDER).items():
                right = isinstance(content, bytes) if is_file else content == {}
                harmless = word.startswith("new") and (content is None or right)  # it is written, or written over
                if not harmless:
                    marks = () if name in SAMPLE else full
                    yield pytest.param(command, word, content, id=f"{command} {word} is {name}", marks=marks)


def put(path, content):
    """Have ``content`` stand at ``path``: nothing, a folder, bytes; or a file stand where its folder should."""
    if path.is_dir():
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()
    if content == {}:
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)


@pytest.mark.parametrize(("command", "word", "content"), [*cases()])
def test_what_is_wrong_with_a_path_is_said(place, call, command, word, content):
    words = CALLS[command].split()
    if content == "above":
        (place / "text").write_text("text")
        words = [f"text/{name}" if name == word else name for name in words]
    else:
        put(place / word, content)
    status, _, text = call(command, *words)
    assert status in (1, 2) and "Traceback" not in text
    message = [line for line in text.splitlines() if line.startswith(f"flatfed {command}: ")]
    assert message or f" {command}: error: argument" in text.splitlines()[-1], text
