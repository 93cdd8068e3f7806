"""GPUs are found without torch, and jobs of one machine get different ones."""

import contextlib
import json
import os
import subprocess
import sys

import pytest

import made
from flatfed import gpus
from flatfed.errors import FlatFedError
from repository import SRC
from shipped import EXP


@pytest.mark.parametrize(
    ("mask", "ids"),
    [("", []), ("-1", []), ("0", ["0"]), ("0,2", ["0", "2"]), ("1,-1,0", ["1"]), ("GPU-8f,MIG-1", ["GPU-8f", "MIG-1"])],
)
def test_the_mask_decides_what_is_visible(monkeypatch, mask, ids):
    """A named device is taken at its word."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", mask)
    assert gpus.visible() == ids
    assert [gpus.resolve(device) for device in ("auto", "cpu", "cuda")] == ["cuda" if ids else "cpu", "cpu", "cuda"]
    assert gpus.of_jobs("auto", local=True) == gpus.resolve("auto")
    with pytest.raises(FlatFedError, match=r"jobs run on other hosts: say --config device=cuda \(or device=cpu\)"):
        gpus.of_jobs("auto", local=False)


def test_without_a_mask_the_driver_or_nvidia_smi_is_asked(monkeypatch, tmp_path):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(gpus, "DRIVER", tmp_path / "driver")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpus.visible() == []
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'GPU 0: H200 (UUID: GPU-1)'\necho '  MIG 1g.18gb (UUID: MIG-1)'\n")
    tool.chmod(0o755)
    assert gpus.visible() == ["0"]
    for name in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / "driver" / name).mkdir(parents=True)
    assert gpus.visible() == ["0", "1"]


@pytest.mark.parametrize(("mask", "claims"), [("3,5", ["3", "5"]), ("7", [None, None])])
def test_jobs_claim_different_gpus_and_share_when_there_are_more_jobs(monkeypatch, tmp_path, mask, claims):
    """A single GPU needs no claim. The kernel's locks end with their job, their files stay."""
    monkeypatch.setattr(gpus.tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with contextlib.ExitStack() as stack:

        def claim():
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", mask)
            gpu = stack.enter_context(gpus.claimed())
            assert os.environ["CUDA_VISIBLE_DEVICES"] == (gpu or mask)
            return gpu

        assert [claim(), claim()] == claims and claim() in claims
        stack.close()
        assert claim() == claims[0]
        monkeypatch.setenv("SLURM_JOB_ID", "8")
        assert [claim(), claim()] == claims, "Slurm numbers the GPUs of each allocation from 0"


@pytest.mark.parametrize(("mask", "why"), [("", "hides all"), ("-1", "hides all"), (None, "`nvidia-smi` lists none")])
def test_cuda_asked_for_and_absent_is_said_with_what_to_do(monkeypatch, tmp_path, mask, why):
    monkeypatch.setattr(gpus, "DRIVER", tmp_path / "absent")
    monkeypatch.setattr(gpus, "OTHERS", (tmp_path / "kfd",))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if mask is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", mask)
    with pytest.raises(FlatFedError, match=why) as refusal:
        gpus.demanded("cuda")
    assert "--config device=cpu" in str(refusal.value) and "--device cpu" in str(refusal.value)
    assert gpus.demanded("auto") == gpus.demanded("cpu") == "cpu"
    (tmp_path / "kfd").touch()
    assert gpus.demanded("cuda") == "cuda", "torch knows more kinds than are looked for here"


#: Calls commands in one process; prints the status of each, and whether torch was imported.
WITHOUT_TORCH = """
import json, sys
from flatfed import cli
for words in json.loads(sys.argv[1]):
    print(cli.main(words), "torch" in sys.modules)
"""
DATA = ("--device", "cuda", "--dataset", "data", "--partition", "partition.npz")
RUN = ("--run", "description.json", *DATA, "--out", "out")
COMMANDS = (
    ("train", *RUN),
    ("time", *RUN),
    ("hessian", "run", *DATA, "--out", "hessian.json"),
    ("surface", "run", *DATA, "--out", "surface.npz"),
    ("rerun", "run", "--out", "again", "--dataset", "data"),
)


def test_cuda_that_is_absent_is_refused_before_torch_is_imported(tmp_path):
    """In the first second: importing torch takes longer."""
    described = EXP.run("preview", "fedsmoo-cifar10", "dir0.6-100", "fedavg", 1).config.as_json()
    about = {"executor": "stacked", "device": "cuda", "threads": 1, "versions": {}, "libraries": {}}
    host = {"processor": None, "gpu": None}
    made.run(tmp_path / "run", {"round": [described["rounds"]]}, settings=described, host=host, **about)
    (tmp_path / "description.json").write_text(json.dumps(described))
    environment = {**os.environ, "PYTHONPATH": str(SRC), "CUDA_VISIBLE_DEVICES": ""}
    call = [sys.executable, "-c", WITHOUT_TORCH, json.dumps(COMMANDS)]
    done = subprocess.run(call, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900, check=True)
    assert done.stdout == "2 False\n" * len(COMMANDS), done.stderr
    for line, (command, *_) in zip(done.stderr.splitlines(), COMMANDS, strict=True):
        assert line.startswith(f"flatfed {command}: device: cuda was requested, but this host has no GPU")
