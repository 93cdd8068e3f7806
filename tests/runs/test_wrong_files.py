"""Every command with something wrong in every place it reads or writes: one message that names it, and no trace."""

import json
import os
import re
import shutil

import pytest

import made
from flatfed import cli
from harness import description, write_problem
from samples import full

DEAL = {"dataset": "problem", "classes": 3, "scheme": "iid", "clients": 6, "balanced": True, "seed": 3}
DATA = {"name": "digits", "classes": 10, "shape": [1, 8, 8], "source": {"source": "sklearn", "test": 500}}
TABLE, FIGURE = "fedsmoo2023_T1", "fedsmoo2023_F7"
CONFIG = f"scale: preview\ntables: [{TABLE}]\nfigures: [{FIGURE}]\n"

#: Command -> a call of it that works, apart from what it writes. Words that are names of ``FILES`` are read.
CALLS = {
    "fetch": "--spec data.json --out new",
    "partition": "--spec deal.json --dataset data --out new.npz",
    "weights": "--name vit_b32-imagenet --checkpoint other.pth --out new.safetensors",
    "train": "--run run.d.json --dataset data --partition dealt.npz --out new",
    "choose": "fedsam-cifar10 dir0.6-100-p20 fedsam --config config.yaml --out new.json",
    "hessian": "run --dataset data --partition dealt.npz --out new.json",
    "surface": "run --dataset data --partition dealt.npz --out new.npz",
    "cell": f"{TABLE} cifar10-dir0.6-100 fedavg --config config.yaml --out new.json",
    "table": f"{TABLE} --config config.yaml --out new",
    "figure": f"{FIGURE} --config config.yaml --out new",
    "report": "--config config.yaml --out new.html",
    "describe": "--config config.yaml results/preview/runs/fedsmoo-cifar10/dir0.6-100/fedavg/seed1",
    "import": "--config config.yaml run",
    "check": "--config config.yaml",
    "errata": "--out new.html",
    "verify": "--config config.yaml",
    "time": "--run run.d.json --dataset data --partition dealt.npz --out new.json --rounds 1",
    "plan": "--config config.yaml",
    "rerun": "run --dataset data --out new",
    "status": "--config config.yaml",
    "clean": "",
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
    (root / "other.pth").write_bytes(b"weights of another kind")
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


#: Checked where those commands are: tests of fetch and partition.
ELSEWHERE = {("fetch", "data.json", "{}"), ("partition", "deal.json", "{}")}


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
                if not harmless and (command, word, name) not in ELSEWHERE:
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


def called(words, capsys):
    """Return (status, the lines on stderr) of a call; what it raises is raised."""
    capsys.readouterr()
    try:
        status = cli.main(words)
    except SystemExit as end:
        status = end.code
    return status, capsys.readouterr().err.splitlines()


@pytest.mark.parametrize(("command", "word", "content"), cases())
def test_what_is_wrong_with_a_path_is_said(place, capsys, command, word, content):
    words = CALLS[command].split()
    if content == "above":
        (place / "text").write_text("text")
        words = [f"text/{each}" if each == word else each for each in words]
    else:
        put(place / word, content)
    status, said = called([command, *words], capsys)
    assert status in (1, 2) and said, said
    assert said[-1].startswith(f"flatfed {command}: ") or f" {command}: error: argument" in said[-1], said
    assert not any(line.startswith("Traceback") for line in said)


def spoilt(value):
    """Yield copies of a JSON ``value`` with one key or element less or of another kind, and its place, in words."""
    for place in places(value):
        for name, other in {
            "gone": ...,
            "null": None,
            "a text": "x",
            "half": 0.5,
            "a list": [],
            "a mapping": {},
        }.items():
            copied = json.loads(json.dumps(value))
            holder = copied
            for key in place[:-1]:
                holder = holder[key]
            if other is ...:
                del holder[place[-1]]
            else:
                holder[place[-1]] = other
            yield f"{'.'.join(map(str, place))} is {name}", copied


def places(value, at=()):
    """Yield the place of every key in ``value``, and of the first element of every list."""
    keys = value if isinstance(value, dict) else range(min(1, len(value))) if isinstance(value, list) else ()
    for key in keys:
        yield (*at, key)
        yield from places(value[key], (*at, key))


def test_a_description_with_anything_wrong_in_it_is_answered(place, capsys):
    """Every key is taken away, or of another kind, in turn: what cannot be worked with is refused in one line."""
    command = "train"
    words = CALLS[command].split()
    file = place / next(word for word in words if word.endswith(".json"))
    spec = json.loads(file.read_text())
    spec |= {"rounds": 1, "evaluation": {**spec["evaluation"], "every": 5}}
    refused = 0
    for what, broken in spoilt(spec):
        file.write_text(json.dumps(broken))
        status, said = called([command, *words], capsys)
        assert status in (0, 2), what
        if status:
            refused += 1
            assert len([line for line in said if line.startswith(f"flatfed {command}: ")]) == 1, (what, said)
        for left in place.glob("new*"):
            shutil.rmtree(left) if left.is_dir() else left.unlink()
    assert refused > 5


@pytest.mark.parametrize("command", ["hessian", "surface", "rerun"])
@pytest.mark.parametrize(
    "key", ["description", "dataset_digest", "description.model", "description.rounds", "partition_digest"]
)
def test_a_record_that_is_not_whole_is_refused(place, capsys, command, key):
    record = json.loads((place / "run/run.json").read_text())
    holder = record["description"] if "." in key else record
    del holder[key.rpartition(".")[2]]
    made.sealed(place / "run/run.json", record)
    status, said = called([command, *CALLS[command].split()], capsys)
    assert status == 2 and f"key {key.rpartition('.')[2]!r} is missing" in said[-1]
    assert said[-1].startswith(f"flatfed {command}: run/run.json: ")
