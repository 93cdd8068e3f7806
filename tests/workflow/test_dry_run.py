"""What would be made, at either scale, without making it."""

import re
from pathlib import Path

import pytest
from project import COLUMN, SPLIT, TABLE


def test_the_default_is_the_preview_of_the_configured_tables(untouched):
    jobs = untouched.planned()
    assert {f"results/preview/runs/fedsmoo-cifar10/{SPLIT}/fedsmoo/seed{seed}" for seed in (1, 2)} <= jobs["train"]
    assert "resources/digits" in jobs["fetch"]
    assert jobs["report"] == {"results/preview/report.html"}
    assert jobs["table"] == {"results/preview/tables"}
    assert not [made for kind in jobs.values() for made in kind if "paper" in made]


def test_a_target_decides_its_scale(untouched):
    jobs = untouched.planned(f"results/paper/cells/{TABLE}/{COLUMN}/fedsmoo.json")
    assert jobs["fetch"] == {"resources/cifar10"}
    assert all("/paper/" in made for made in jobs["train"] | jobs["partition"] | jobs["cell"])
    assert not jobs.get("report")


def test_the_scale_can_be_configured(untouched):
    jobs = untouched.planned("--config", "scale=paper")
    assert all("/paper/" in made for made in jobs["train"])


def test_everything_is_every_table_and_figure(untouched):
    configured, everything = untouched.planned(), untouched.planned("everything")
    assert configured["train"] < everything["train"]
    assert "cell" not in everything, "a table is one job"
    assert len({made.split("/")[4] for made in everything["train"] if "/runs/fedsmoo-cifar10/" in made}) >= 8
    assert configured["figure"] <= everything["figure"]


def test_a_table_has_the_same_columns_by_name(untouched):
    configured, named = untouched.planned(), untouched.planned(f"results/preview/tables/{TABLE}.csv")
    assert named["train"] == {made for made in configured["train"] if "/runs/fedsmoo-cifar10/" in made}


def test_a_surface_can_be_of_other_images_than_the_protocols(untouched):
    folder = f"results/preview/analysis/fedsmoo-cifar10/{SPLIT}/fedavg/seed1"
    names = ("surface.npz", "surface.test.npz")
    done = untouched.make("--dry-run", "--printshellcmds", "--", *(f"{folder}/{name}" for name in names)).text
    calls = [text for text in done.splitlines() if " flatfed surface " in text]
    found = {Path(re.search(r" --out (\S+) ", text)[1]).name: re.search(r" --set (\S+) ", text)[1] for text in calls}
    assert found == dict(zip(names, ("train", "test"), strict=True))
    assert len(set(re.findall(r"> (\S+\.log) ", "\n".join(calls)))) == 2


def test_the_hessian_of_a_seed_is_drawn_by_it(untouched):
    folder = f"results/preview/analysis/fedsmoo-cifar10/{SPLIT}/fedavg"
    paths = [f"{folder}/seed{seed}/hessian.json" for seed in (1, 2)]
    done = untouched.make("--dry-run", "--printshellcmds", "--", *paths).text
    calls = re.findall(r"flatfed hessian .*? --out (\S+) .*?--seed (\d+) ", done)
    assert sorted(calls) == [(paths[0], "1"), (paths[1], "2")]


def test_a_table_is_whole_where_the_configuration_names_none_of_its_columns(untouched):
    jobs = untouched.planned("--config", f"tables=[{TABLE}]", "--", f"results/paper/tables/{TABLE}.md")
    assert jobs["fetch"] == {"resources/cifar10", "resources/cifar100"}
    assert len({tuple(made.split("/")[3:5]) for made in jobs["train"]}) == 16


def test_one_run_is_shared_by_the_tables_that_show_it(untouched):
    text = untouched.make("--dry-run", "--printshellcmds").text
    commands = [line for line in text.splitlines() if " flatfed train " in line]
    assert len(commands) == len(set(commands)) == len(untouched.planned()["train"])


def test_seeds_can_be_configured(untouched):
    jobs = untouched.planned("--config", "seeds=[4]")
    assert {made[-5:] for made in jobs["train"]} == {"seed4"}


def test_data_can_be_brought_from_disk_by_the_command_line(untouched, tmp_path):
    import numpy

    file = tmp_path / "cifar10.npz"
    numpy.savez(file, train_images=numpy.zeros((4, 32, 32, 3), "uint8"))
    target = f"results/paper/cells/{TABLE}/{COLUMN}/fedsmoo.json"
    source = f"data={{cifar10: {{source: npz, path: {file}}}}}"
    text = untouched.make("--dry-run", "--printshellcmds", "--config", source, "--", target).text
    assert f'"path": "{file}"' in text


@pytest.mark.parametrize(("mask", "device"), [("0,1", "cuda"), ("", "cpu")])
def test_training_asks_for_a_gpu_where_there_is_one(untouched, mask, device):
    done = untouched.snakemake("--dry-run", "--printshellcmds", env={"CUDA_VISIBLE_DEVICES": mask})
    assert f"--device {device} " in done.text


def test_the_profile_runs_one_gpu_job_per_gpu(trained):
    cell = f"results/preview/cells/{TABLE}/{COLUMN}/fedsmoo.json"
    done = trained.snakemake("--force", cell, env={"CUDA_VISIBLE_DEVICES": "0,1,2"})
    assert 'gpu=Resource("gpu", 3)' in done.text


def test_cuda_without_a_gpu_ends_before_the_first_job(trained):
    cell = f"results/preview/cells/{TABLE}/{COLUMN}/fedsmoo.json"
    asked = ["--config", "device=cuda", "--force", cell]
    done = trained.snakemake(*asked, env={"CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode != 0 and "Execute" not in done.text
    assert "device: cuda was asked for, but there is no GPU here" in done.text and "device=cpu" in done.text
    assert trained.snakemake("--dry-run", *asked, env={"CUDA_VISIBLE_DEVICES": ""}).returncode == 0, (
        "elsewhere there may be"
    )


def test_auto_without_a_gpu_says_that_it_takes_the_cpu(trained):
    cell = f"results/preview/cells/{TABLE}/{COLUMN}/fedsmoo.json"
    said = "device: auto, and there is no GPU here: trainings run on the CPU."
    assert said in trained.make("--force", cell).text
    assert said not in trained.make("--force", cell, "--config", "device=cpu").text


@pytest.mark.parametrize(("more", "threads"), [([], 2), (["--set-threads", "train=1"], 1)])
def test_the_threads_of_a_training_come_from_snakemake(untouched, more, threads):
    """config.yaml asks for three, two cores are there."""
    target = f"results/paper/cells/{TABLE}/{COLUMN}/fedavg.json"
    text = untouched.make(
        "--dry-run", "--printshellcmds", *more, "--config", "threads=3", "seeds=[1]", "--", target
    ).text
    assert re.findall(r"flatfed train .* --threads (\d+) >", text) == [str(threads)]
