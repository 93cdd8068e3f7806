"""What would be made, at either scale, without making it."""

import re
from pathlib import Path

import numpy
import pytest
from project import COLUMN, SPLIT, TABLE, jobs_of

CELL = f"cells/{TABLE}/{COLUMN}/fedsmoo.json"
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}


@pytest.fixture(scope="module")
def configured(untouched):
    """The text of a dry run of all that is configured, on a machine without a GPU."""
    return untouched.make("--dry-run", "--printshellcmds", env=NO_GPU).text


def test_the_default_is_the_preview_of_the_configured_tables(untouched, configured):
    jobs = jobs_of(configured)
    assert {f"results/preview/runs/fedsmoo-cifar10/{SPLIT}/fedsmoo/seed{seed}" for seed in (1, 2)} <= jobs["train"]
    assert "resources/digits" in jobs["fetch"]
    assert jobs["report"] == {"results/preview/report.html"} and jobs["table"] == {"results/preview/tables"}
    assert not [made for kind in jobs.values() for made in kind if "paper" in made] and "cell" not in jobs
    commands = [line for line in configured.splitlines() if " flatfed train " in line]
    assert len(commands) == len(set(commands)) == len(jobs["train"]), "tables share the runs that they show"
    named = untouched.planned(f"results/preview/tables/{TABLE}.csv")
    assert named["train"] == {made for made in jobs["train"] if "/runs/fedsmoo-cifar10/" in made}, "the same columns"


def test_a_target_decides_its_scale_and_a_call_seeds_threads_data_and_the_device(untouched, configured, tmp_path):
    """config.yaml asks for three threads, two cores are there."""
    file = tmp_path / "cifar10.npz"
    numpy.savez(file, train_images=numpy.zeros((4, 32, 32, 3), "uint8"))
    source = f"data={{cifar10: {{source: npz, path: {file}}}}}"
    asked = ["--config", source, "threads=3", "seeds=[4]", "--", f"results/paper/{CELL}"]
    for words, threads in (((), "2"), (("--set-threads", "train=1"), "1")):
        shown = ("--dry-run", "--printshellcmds", *words, *asked)
        text = untouched.make(*shown, env={"CUDA_VISIBLE_DEVICES": "0,1"}).text
        assert re.findall(r"flatfed train .* --threads (\d+) >", text) == [threads]
    jobs = jobs_of(text)
    assert jobs["fetch"] == {"resources/cifar10"} and f'"path": "{file}"' in text
    assert all("/paper/" in made for made in jobs["train"] | jobs["partition"] | jobs["cell"])
    assert not jobs.get("report") and {made[-5:] for made in jobs["train"]} == {"seed4"}
    assert "--device cuda " in text and "--device cpu " in configured


def test_a_table_is_whole_where_the_configuration_names_none_of_its_columns(untouched):
    jobs = untouched.planned("--config", "scale=paper", f"tables=[{TABLE}]", "figures=[]")
    assert jobs["fetch"] == {"resources/cifar10", "resources/cifar100"}
    assert len({tuple(made.split("/")[3:5]) for made in jobs["train"]}) == 16
    assert all("/paper/" in made for made in jobs["train"])


def test_analyses_of_other_images_than_the_protocols_and_of_each_seed(untouched):
    folder = f"results/preview/analysis/fedsmoo-cifar10/{SPLIT}/fedavg"
    names, hessians = ("surface.npz", "surface.test.npz"), [f"{folder}/seed{seed}/hessian.json" for seed in (1, 2)]
    targets = [*(f"{folder}/seed1/{name}" for name in names), *hessians]
    done = untouched.make("--dry-run", "--printshellcmds", "--", *targets).text
    calls = [text for text in done.splitlines() if " flatfed surface " in text]
    found = {Path(re.search(r" --out (\S+) ", text)[1]).name: re.search(r" --set (\S+) ", text)[1] for text in calls}
    assert found == dict(zip(names, ("train", "test"), strict=True))
    assert len(set(re.findall(r"> (\S+\.log) ", "\n".join(calls)))) == 2
    calls = re.findall(r"flatfed hessian .*? --out (\S+) .*?--seed (\d+) ", done)
    assert sorted(calls) == [(hessians[0], "1"), (hessians[1], "2")], "drawn by the seed"


def test_the_default_profile_counts_gpus_and_says_when_there_is_none(project):
    target = ("--force", f"results/preview/{CELL}")
    text = project.make(*target, env={"CUDA_VISIBLE_DEVICES": "0,1,2"}).text
    said = "device: auto, and there is no GPU here: trainings run on the CPU."
    assert 'gpu=Resource("gpu", 3)' in text and said not in text
    assert said in project.make(*target, env=NO_GPU).text


def test_cuda_without_a_gpu_ends_before_the_first_job(project):
    asked = ["--config", "device=cuda", "--force", f"results/preview/{CELL}"]
    done = project.snakemake(*asked, env=NO_GPU)
    assert done.returncode != 0 and "Execute" not in done.text
    assert "device: cuda was requested, but this host has no GPU" in done.text and "device=cpu" in done.text
    project.make("--dry-run", *asked, env=NO_GPU)  # elsewhere there may be one


def test_the_times_of_the_slurm_profile_are_minutes(untouched, tmp_path):
    """Snakemake shows the resources of a rule without a message."""
    project = untouched.clone(tmp_path / "project")
    with (project.root / "Snakefile").open("a") as file:
        file.write('\n\nrule plain:\n    output:\n        "plain.txt",\n    shell:\n        "touch {output}"\n')
    here = ("--workflow-profile", "profiles/slurm", "--executor", "local", "--config", "device=cpu")
    text = project.make("--dry-run", *here, "--", "plain.txt").text
    assert re.search(r"\bruntime=30\b", text) and re.search(r"\bmem_mb=4000\b", text), text
