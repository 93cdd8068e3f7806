"""A disk that is full or read-only in the middle of a run: a message that says what to do, and nothing is lost."""

import errno
import os
import subprocess

import pytest

from flatfed import cli
from harness import assert_same, at_round, train_command, write_checkpoints
from samples import full


@pytest.fixture
def disk(tmp_path):
    """A file system of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--all-targets", folder], check=True)


def fill(disk):
    with (disk / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1024))
        except OSError:
            os.fsync(file.fileno())


def read_only(disk):
    """Lay the same file system over itself, read-only: what is open for writing would keep it from changing."""
    subprocess.run(["mount", "--bind", disk, disk], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", disk], check=True)


@pytest.mark.parametrize(("number", "kind"), [pytest.param(0, "full", marks=full), (3, "full"), (3, "read-only")])
def test_a_full_or_read_only_disk_costs_no_round_that_was_saved(tmp_path, disk, monkeypatch, capsys, number, kind):
    parts = disk / "parts"
    write_checkpoints(monkeypatch)
    assert train_command(tmp_path, "whole", rounds=8) == 0
    with monkeypatch.context() as patch:
        at_round(patch, number, lambda: fill(disk) if kind == "full" else read_only(disk))
        assert train_command(tmp_path, parts, rounds=8) == cli.REFUSED
    output = capsys.readouterr().err
    assert f"flatfed train: {parts}" in output and "Traceback" not in output
    assert {"full": "no space left on device; free", "read-only": "read-only file system; results"}[kind] in output
    assert not (parts / "run.json").exists()
    if kind == "full":
        (disk / "filler").unlink()
    else:
        subprocess.run(["umount", disk], check=True)
    assert train_command(tmp_path, parts, rounds=8) == 0
    assert (f"from round {number} of its checkpoint" if number else "from the start") in capsys.readouterr().err
    assert_same(parts, tmp_path / "whole")


def test_an_error_that_is_no_disk_s_is_not_hidden(monkeypatch):
    def broken(options):
        raise OSError(errno.EIO, "Input/output error", "x")

    monkeypatch.setattr("flatfed.commands.check.run", broken)
    with pytest.raises(OSError, match="Input/output error"):
        cli.main(["check"])
