"""The digest of a job's code: changes with what it runs, and with nothing else."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

import same_bytes
from flatfed import algorithms, experiment
from flatfed.runs import provenance

SRC = Path(__file__).parents[2] / "src"


def digests(src: Path) -> dict[str, str]:
    """Return the digest of a run of every algorithm; a fresh path each time, since digests are kept per path."""
    description = {"model": {"name": "cnn_tiny"}}
    return {name: provenance.run_digest({**description, "update": {"name": name}}, src) for name in algorithms.names()}


@pytest.fixture(scope="module")
def before() -> dict[str, str]:
    return digests(SRC)


@pytest.fixture
def changed(tmp_path: Path, before: dict[str, str]):
    """A function: names of the algorithms whose runs change when ``file`` is edited by ``edit``, in another folder."""

    def apply(file: str, edit) -> set[str]:
        after = tmp_path / "after"
        shutil.copytree(SRC / "flatfed", after / "flatfed", ignore=shutil.ignore_patterns("__pycache__"))
        path = after / "flatfed" / file
        text = path.read_text()
        assert edit(text) != text
        path.write_text(edit(text))
        found = digests(after)
        return {name for name in found if found[name] != before[name]}

    return apply


def statement(text: str) -> str:
    return text + "\nCHANGED = 1\n"


def test_comments_docstrings_and_layout_change_nothing(changed) -> None:
    def edit(text: str) -> str:
        first, rest = text.split('"""', 2)[1:]
        return f'"""Another docstring than\n{first}"""\n\n\n# A comment.\n' + rest

    assert changed("algorithms/fedsam.py", edit) == set()


def test_docstrings_of_functions_change_nothing(changed) -> None:
    assert changed("algorithms/feddyn.py", lambda text: text.replace('"""G = g', '"""Now G = g')) == set()


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("algorithms/fedsam.py", {"fedsam"}),
        ("algorithms/feddyn.py", {"feddyn", "fedsmoo", "fedspeed", "fedlesam_d"}),
        ("algorithms/fedsmoo.py", {"fedsmoo"}),
        ("algorithms/fedcm.py", {"fedcm", "mofedsam"}),
        (
            "algorithms/_sam.py",
            {"fedsam", "mofedsam", "fedgamma", "fedspeed", "dfedsam", "dfedsam_mgs", "centralised_sam"},
        ),
        ("models/cnn.py", set()),
        ("tables/cells.py", set()),
        ("experiment/settings.py", set()),
        ("cli.py", set()),
        ("data/sources.py", set()),
    ],
)
def test_an_algorithm_changes_what_is_built_on_it(changed, file: str, expected: set[str]) -> None:
    assert changed(file, statement) == expected


@pytest.mark.parametrize("file", ["engine/simulation.py", "algorithms/_base.py", "models/cnn_tiny.py", "__init__.py"])
def test_shared_code_changes_all_runs(changed, file: str) -> None:
    assert changed(file, statement) == set(algorithms.names())


def test_relative_imports_submodules_and_type_checking(tmp_path: Path) -> None:
    files = {
        "__init__.py": "",
        "a.py": "from . import b\nfrom .sub import c\nfrom flatfed.sub.d import name\nimport json\n",
        "b.py": "def f():\n    import flatfed.lazy\n",
        "lazy.py": "",
        "sub/__init__.py": "",
        "sub/c.py": "from ..e import something\n",
        "sub/d.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import flatfed.typed\nname = 1\n",
        "e.py": "something = None\n",
        "typed.py": "",
        "apart.py": "",
    }
    for name, text in files.items():
        path = tmp_path / "flatfed" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = provenance.closure(tmp_path, ["flatfed.a"])
    assert found == [f"flatfed{name}" for name in ("", ".a", ".b", ".e", ".lazy", ".sub", ".sub.c", ".sub.d")]


def test_an_unknown_module_is_an_error() -> None:
    with pytest.raises(FileNotFoundError, match=r"flatfed\.nothing"):
        provenance.code_digest(SRC, ["flatfed.nothing"])


def forget() -> None:
    for function in (provenance._run_digest, provenance._group, provenance.files, provenance._file, provenance._parsed):
        function.cache_clear()


def test_what_was_read_is_kept_and_never_trusted_for_other_source(tmp_path: Path, monkeypatch) -> None:
    source = tmp_path / "flatfed" / "a.py"
    source.parent.mkdir()
    (source.parent / "__init__.py").write_text("")
    source.write_text("VALUE = 1\n")

    def digest() -> str:
        forget()
        return provenance.code_digest(tmp_path, ["flatfed.a"])

    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    first = digest()
    kept = source.parent / "__pycache__" / "a.provenance.json"
    with monkeypatch.context() as patch:
        patch.setattr(provenance, "_dump", lambda tree: pytest.fail("read again"))
        assert digest() == first
    times = source.stat()
    source.write_text("VALUE = 2\n")
    os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
    second = digest()
    assert second != first, "of the same size and time, but other source"
    kept.write_text('{"source": ')
    assert digest() == second
    source.write_text("VALUE = 1\n")
    assert digest() == first
    shutil.rmtree(kept.parent)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert digest() == first and not kept.parent.exists()
    forget()


def test_code_that_was_shown_to_train_the_same_bytes_has_the_digest_of_the_first(tmp_path, monkeypatch, before) -> None:
    """Shared code moves on, twice: the list keeps the runs' digests; what is an algorithm's own still counts."""
    monkeypatch.setattr(provenance, "SAME_BYTES", tmp_path / "list.json")
    (tmp_path / "list.json").write_text("[]")
    first = digests(SRC)
    listed: list = []
    was = provenance.code_digest(SRC, provenance.SHARED)
    for number in (1, 2):
        after = tmp_path / str(number)
        shutil.copytree(SRC / "flatfed", after / "flatfed", ignore=shutil.ignore_patterns("__pycache__"))
        path = after / "flatfed/engine/simulation.py"
        path.write_text(path.read_text() + f"MOVED = {number}\n")
        assert not {name for name, digest in digests(after).items() if digest == first[name]}, "not shown yet"
        now = provenance.code_digest(after, provenance.SHARED)
        files = provenance.files(SRC if number == 1 else tmp_path / "1", provenance.SHARED)
        listed = same_bytes.recorded(was, files, now, listed)
        (tmp_path / "list.json").write_text(json.dumps(listed))
        forget()
        assert digests(after) == first == digests(SRC)
        was = now
    assert len(listed) == 1 and len(listed[0]["digests"]) == 3
    own = tmp_path / "2/flatfed/algorithms/fedsmoo.py"
    own.write_text(own.read_text() + "CHANGED = 1\n")
    forget()
    changed = digests(tmp_path / "2")
    assert {name for name in changed if changed[name] != first[name]} == {"fedsmoo"}


def test_the_list_of_same_bytes_is_whole() -> None:
    groups = json.loads(provenance.SAME_BYTES.read_text())
    every = [digest for group in groups for digest in group["digests"]]
    assert len(every) == len(set(every)), "in one group each"
    for group in groups:
        assert provenance._digest(group["files"]) == group["digests"][0], "its files are those of the first"


def test_what_is_trained_to_show_it_has_every_algorithm_and_choice_of_the_preview() -> None:
    known = experiment.load(SRC.parent)
    had = {name: list(algorithms.load(name).parameters()) for name in algorithms.names()}
    found = same_bytes.chosen(known, had)
    assert {run.description["update"]["name"] for run in found} == set(algorithms.names())
    effects = [run for run in known.table_runs("preview", "effects") if run.seed == 1]
    covered = set().union(*map(same_bytes.features, found))
    assert effects and all(same_bytes.features(run) <= covered for run in effects)
    older = {**had, "feddyn": [name for name in had["feddyn"] if name != "regulariser"]}
    then = set().union(*map(same_bytes.features, same_bytes.chosen(known, older)))
    assert {each for each in covered - then if "feddyn" in each} == {'feddyn.regulariser "FL-SAM@2c16149"'}
