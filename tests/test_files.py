"""Folders that cannot be written to are named with what to do, before anything is started."""

import os
from pathlib import Path

import pytest

from flatfed import files
from flatfed.errors import FlatFedError


def test_folders_that_can_be_made_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files.check_writable([tmp_path, tmp_path / "a/b/c", Path("results/preview/runs")])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", ["theirs", "theirs/a/b"])
def test_a_folder_of_somebody_else_is_named(tmp_path, monkeypatch, given):
    (tmp_path / "theirs").mkdir()
    monkeypatch.setattr(files.os, "access", lambda path, mode: path != tmp_path / "theirs")
    with pytest.raises(FlatFedError, match=f"{tmp_path}/theirs: .*see `ls -ld` of the folder. Nothing was started"):
        files.check_writable([tmp_path, tmp_path / given])


def test_a_read_only_file_system_is_named(tmp_path, monkeypatch):
    found = os.statvfs(tmp_path)
    read_only = type("", (), {"f_flag": found.f_flag | os.ST_RDONLY})
    monkeypatch.setattr(files.os, "statvfs", lambda path: read_only)
    with pytest.raises(FlatFedError, match=f"^{tmp_path}: read-only file system; results"):
        files.check_writable([tmp_path / "results"])
