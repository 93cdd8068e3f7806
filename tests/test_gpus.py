"""GPUs are found without torch, and jobs of one machine get different ones."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import made
from flatfed import gpus, plan
from flatfed.errors import FlatFedError
from flatfed.plan import run_specs
from repository import ROOT


@pytest.mark.parametrize(
    ("mask", "ids"),
    [("", []), ("-1", []), ("0", ["0"]), ("0,2", ["0", "2"]), ("1,-1,0", ["1"]), ("GPU-8f,MIG-1", ["GPU-8f", "MIG-1"])],
)
def test_mask_decides_what_is_visible(monkeypatch, mask, ids):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", mask)
    assert gpus.visible() == ids
    assert gpus.resolve("auto") == ("cuda" if ids else "cpu")


def test_driver_is_counted_without_a_mask(monkeypatch, tmp_path):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for name in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(gpus, "DRIVER", tmp_path)
    assert gpus.visible() == ["0", "1"]


def test_nvidia_smi_is_asked_where_the_driver_folder_is_absent(monkeypatch, tmp_path):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(gpus, "DRIVER", tmp_path / "absent")
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'GPU 0: H200 (UUID: GPU-1)'\necho '  MIG 1g.18gb (UUID: MIG-1)'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert gpus.visible() == ["0"]
    tool.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpus.visible() == []


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_named_device_is_taken_at_its_word(monkeypatch, device):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert gpus.resolve(device) == device


def test_jobs_claim_different_gpus_and_share_when_there_are_more_jobs(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(gpus.tempfile, "tempdir", None)

    def claim():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
        return gpus.claimed()

    with claim() as first:
        assert os.environ["CUDA_VISIBLE_DEVICES"] == first == "3"
        with claim() as second:
            assert second == "5"
            with claim() as third:
                assert third in ("3", "5")
    with claim() as again:
        assert again == "3"


def test_a_single_gpu_needs_no_claim(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    with gpus.claimed() as gpu:
        assert gpu is None
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "7"


#: A job that claims a GPU, says which, and holds it until its standard input ends.
JOB = """
import os, sys
from flatfed import gpus
with gpus.claimed() as gpu:
    assert os.environ["CUDA_VISIBLE_DEVICES"] == gpu
    print(gpu, flush=True)
    sys.stdin.read()
"""


def begun(folder, mask, **more):
    source = str(Path(gpus.__file__).resolve().parents[1])
    known = {key: value for key, value in os.environ.items() if not key.startswith("SLURM")}
    environment = {**known, "PYTHONPATH": source, "TMPDIR": str(folder), "CUDA_VISIBLE_DEVICES": mask, **more}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", JOB], env=environment, text=True, **pipes)


def test_processes_that_begin_together_have_a_gpu_each_and_a_killed_one_gives_its_back(tmp_path):
    jobs = [begun(tmp_path, "1,3,GPU-8f") for _ in range(3)]
    taken = [job.stdout.readline().strip() for job in jobs]
    assert sorted(taken) == ["1", "3", "GPU-8f"]
    jobs[1].send_signal(signal.SIGKILL)
    jobs[1].wait()
    jobs.append(begun(tmp_path, "1,3,GPU-8f"))
    assert jobs[-1].stdout.readline().strip() == taken[1]
    for job in jobs:
        job.communicate()


def test_two_allocations_of_slurm_on_one_host_do_not_share_names(tmp_path):
    """Slurm numbers each job's GPUs from 0: the first of one is not the first of another."""
    jobs = [begun(tmp_path, "0,1", SLURM_JOB_ID=job) for job in ("7", "7", "8", "8")]
    taken = [job.stdout.readline().strip() for job in jobs]
    for job in jobs:
        job.communicate()
    assert sorted(taken[:2]) == sorted(taken[2:]) == ["0", "1"]


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


WITHOUT_TORCH = "import sys; from flatfed import cli; print(cli.main(sys.argv[1:]), 'torch' in sys.modules)"
DATA = ("--dataset", "data", "--partition", "partition.npz")
RUN = ("--run", "description.json", *DATA, "--out", "out")


@pytest.mark.parametrize(
    "command",
    [
        ("train", *RUN),
        ("time", *RUN),
        ("hessian", "run", *DATA, "--out", "hessian.json"),
        ("surface", "run", *DATA, "--out", "surface.npz"),
        ("rerun", "run", "--out", "again", "--dataset", "data"),
    ],
    ids=lambda command: command[0],
)
def test_cuda_that_is_absent_is_refused_before_torch_is_imported(command, tmp_path):
    """In the first second: importing torch takes longer."""
    loaded = plan.load(ROOT)
    described = run_specs.run(loaded, "preview", "fedsmoo-cifar10", "dir0.6-100", "fedavg", 1).config.as_json()
    about = {"executor": "stacked", "device": "cuda", "threads": 1, "versions": {}, "libraries": {}}
    host = {"processor": None, "gpu": None}
    made.run(tmp_path / "run", {"round": [described["rounds"]]}, settings=described, host=host, **about)
    (tmp_path / "description.json").write_text(json.dumps(described))
    source = str(Path(gpus.__file__).resolve().parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "CUDA_VISIBLE_DEVICES": ""}
    call = [sys.executable, "-c", WITHOUT_TORCH, *command, "--device", "cuda"]
    done = subprocess.run(call, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout == "2 False\n", done.stderr
    assert done.stderr.startswith(f"flatfed {command[0]}: device: cuda was requested, but this host has no GPU")
