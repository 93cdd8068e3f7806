"""Folders that cannot be written to are named before anything starts."""

import os
from pathlib import Path

import pytest

from flatfed import files
from flatfed.errors import FlatFedError


def test_folders_that_cannot_be_written_to_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files.check_writable([tmp_path, tmp_path / "a/b/c", Path("results/preview/runs")])
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "theirs").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "access", lambda path, mode: path != tmp_path / "theirs")
        for folder in ("theirs", "theirs/a/b"):
            with pytest.raises(FlatFedError, match=f"{tmp_path}/theirs: .*see `ls -ld` of the folder. Nothing was sta"):
                files.check_writable([tmp_path, tmp_path / folder])
    (tmp_path / "link").symlink_to("nothing")
    with pytest.raises(FlatFedError, match=f"{tmp_path}/link: is a link to nothing, which does not exist; remove"):
        files.check_place(tmp_path / "link/runs", folder=True)
    read_only = type("", (), {"f_flag": os.statvfs(tmp_path).f_flag | os.ST_RDONLY})
    monkeypatch.setattr(files.os, "statvfs", lambda path: read_only)
    with pytest.raises(FlatFedError, match=f"^{tmp_path}: read-only file system; results"):
        files.check_writable([tmp_path / "results"])
