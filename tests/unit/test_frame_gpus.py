"""GPUs are found without torch, and jobs of one machine get different ones."""

import os

import pytest

from flatfed import gpus


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
