"""The commit in records: of a new run, and of the published runs."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

import made
from flatfed.runs import record as records
from flatfed.runs import source_code, versions
from harness import job
from repository import ROOT


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A copy of FlatFed with one file, outside git."""
    (tmp_path / "src/flatfed").mkdir(parents=True)
    (tmp_path / "src/flatfed/a.py").write_text("a = 1\n")
    monkeypatch.setattr(source_code, "PACKAGE", tmp_path / "src/flatfed")
    return tmp_path


def git(folder: Path, *words: str) -> str:
    author = ["-c", "user.name=a", "-c", "user.email=a@b.example"]
    done = subprocess.run(["git", *author, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_commit_is_marked_if_the_sources_differ(copy, monkeypatch):
    assert source_code.commit() is None, "no git"
    git(copy, "init", "-q")
    assert source_code.commit() is None, "no commit yet"
    git(copy, "add", ".")
    git(copy, "commit", "-qm", "one")
    commit = git(copy, "rev-parse", "HEAD")[:12]
    (copy / "config.yaml").write_text("")
    assert source_code.commit() == commit
    (copy / "src/flatfed/b.py").write_text("")
    assert source_code.commit() == f"{commit} and changes since"
    monkeypatch.setenv("PATH", str(copy))
    assert source_code.commit() is None, "git is not installed"


def test_without_git_a_run_of_other_sources_is_noted(tmp_path):
    """As an edit of a shipped algorithm leaves it. A commit tells more than the digest, which each release changes."""
    present, edited = {"package_digest": source_code.package_digest()}, {"package_digest": "0" * 64}
    for sessions, words in (
        ([present], ""),
        ([edited], "sources are not the present ones"),
        ([edited, present], "sources are not the present ones"),
        ([{"commit": "b", **edited}], ""),
        ([{}], ""),
    ):
        made.run(tmp_path, {"round": [1]}, sessions=sessions)
        assert versions.remarks(records.read(tmp_path / "run.json")) == words, sessions


def test_a_training_records_the_digest_of_the_package(tmp_path, monkeypatch):
    """Also outside git; by hand: the names and digests of all its files."""
    monkeypatch.setattr(source_code, "commit", lambda: None)
    record = records.read_finished(job(tmp_path, "fedavg", "run"))
    package = ROOT / "src/flatfed"
    files = sorted(path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    total = hashlib.sha256()
    for path in files:
        total.update(str(path.relative_to(package)).encode() + b"\n" + hashlib.sha256(path.read_bytes()).digest())
    assert record.package_digest == record.sessions[0]["package_digest"] == total.hexdigest()
    assert record.commit is None
