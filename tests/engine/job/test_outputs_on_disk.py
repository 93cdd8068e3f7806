"""A disk that is full or read-only in the middle of a run: a message that says what to do, and nothing is lost."""

import errno
import json
import os
import subprocess

import pytest

from flatfed import cli
from harness import at_round, description, write_problem

ROUNDS = {"rounds": 8, "checkpoint_every": 1, "precision": "float32"}


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


def train(folder, out):
    """Call the command; return its exit status."""
    if not (folder / "data").exists():
        write_problem(folder)
        (folder / "run.json").write_text(json.dumps(description("fedsmoo", **ROUNDS)))
    place = {"--run": folder / "run.json", "--dataset": folder / "data", "--partition": folder / "partition.npz"}
    words = [str(word) for pair in {**place, "--out": out}.items() for word in pair]
    return cli.main(["train", *words, "--device", "cpu"])


def metrics(out):
    return [line.rpartition(",")[0] for line in (out / "metrics.csv").read_text().splitlines()]


def fill(disk):
    with (disk / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1024))
        except OSError:
            os.fsync(file.fileno())


@pytest.mark.parametrize("number", [0, 3, 7])
def test_a_full_disk_costs_no_round_that_was_saved(tmp_path, disk, monkeypatch, capsys, number):
    whole, parts = tmp_path / "whole", disk / "parts"
    assert train(tmp_path, whole) == 0
    with monkeypatch.context() as patch:
        at_round(patch, number, lambda: fill(disk))
        assert train(tmp_path, parts) == 2
    said = capsys.readouterr().err
    assert "no space left on device; free some space and repeat the command: it continues" in said
    assert f"flatfed train: {parts}" in said and "Traceback" not in said
    assert not (parts / "run.json").exists()
    (disk / "filler").unlink()
    assert train(tmp_path, parts) == 0
    assert (f"from round {number} of its checkpoint" if number else "from the start") in capsys.readouterr().err
    assert (parts / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert metrics(parts) == metrics(whole)


def test_a_disk_that_becomes_read_only(tmp_path, disk, monkeypatch, capsys):
    def read_only():
        """Lay the same file system over itself, read-only: what is open for writing would keep it from changing."""
        subprocess.run(["mount", "--bind", disk, disk], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", disk], check=True)

    whole, parts = tmp_path / "whole", disk / "parts"
    assert train(tmp_path, whole) == 0
    with monkeypatch.context() as patch:
        at_round(patch, 3, read_only)
        assert train(tmp_path, parts) == 2
    assert "read-only file system; results and resources need" in capsys.readouterr().err
    subprocess.run(["umount", disk], check=True)
    assert train(tmp_path, parts) == 0
    assert "from round 3 of its checkpoint" in capsys.readouterr().err
    assert (parts / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_an_error_that_is_no_disk_s_is_not_hidden(monkeypatch):
    def broken(options):
        raise OSError(errno.EIO, "Input/output error", "x")

    monkeypatch.setattr("flatfed.commands.check.run", broken)
    with pytest.raises(OSError, match="Input/output error"):
        cli.main(["check"])
