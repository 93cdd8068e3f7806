"""Folders that cannot be written to are named before anything starts; a seal shows changed outputs of a job."""

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
    read_only = type("", (), {"f_flag": os.statvfs(tmp_path).f_flag | os.ST_RDONLY})
    monkeypatch.setattr(files.os, "statvfs", lambda path: read_only)
    with pytest.raises(FlatFedError, match=f"^{tmp_path}: read-only file system; results"):
        files.check_writable([tmp_path / "results"])


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.write_bytes(b""),
        lambda table: table.unlink(),
        lambda table: (table.unlink(), table.mkdir()),
        lambda table: table.with_name(".T1.seal").unlink(),
        lambda table: table.with_name(".T1.seal").write_bytes(b"\xff"),
        lambda table: table.with_name("run.json").write_text("another run"),
    ],
    ids=["emptied", "removed", "a folder", "no seal", "damaged seal", "another run"],
)
def test_changed_outputs_another_request_and_another_run_break_the_seal(tmp_path, change):
    """A run that is copied over with an older time has another record."""
    outputs, inputs = [tmp_path / "T1.csv", tmp_path / "T1.md"], [tmp_path / "run.json", tmp_path / "metrics.csv"]
    for path in (*outputs, *inputs):
        path.write_text(path.name)

    def sealed(request="request"):
        return files.are_sealed(outputs, request, map(str, inputs))

    files.seal_outputs(outputs, "request", map(str, inputs))
    assert {path.name for path in tmp_path.iterdir()} == {".T1.seal", "T1.csv", "T1.md", "run.json", "metrics.csv"}
    inputs[1].write_text("the record has its digest")
    assert sealed() and not sealed("other request")
    inputs[0].unlink()
    assert sealed(), "a table without its run"
    inputs[0].write_text(inputs[0].name)
    change(outputs[1])
    assert not sealed()
