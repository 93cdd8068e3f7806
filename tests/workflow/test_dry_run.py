"""What would be made, at either scale, without making it."""

import re
from pathlib import Path

import numpy
from project import COLUMN, NO_GPU, RUNS, SPLIT, TABLE, jobs_of

from samples import full

SHOWN = "dir0.1-100"  # a split of config.yaml
CELL = f"cells/{TABLE}/{COLUMN}/fedsmoo.json"


def test_the_default_is_the_preview_of_the_configured_tables(untouched):
    text = untouched.make("--dry-run", "--printshellcmds", env=NO_GPU).text
    jobs = jobs_of(text)
    runs = RUNS.replace(SPLIT, SHOWN)
    assert {f"{runs}/fedsmoo/seed{seed}" for seed in (1, 2)} <= jobs["train"] and len(jobs["train"]) == 32
    assert "resources/digits" in jobs["fetch"]
    assert jobs["report"] == {"results/preview/report.html"} and jobs["table"] == {"results/preview/tables"}
    assert not [made for kind in jobs.values() for made in kind if "paper" in made] and "cell" not in jobs
    commands = [line for line in text.splitlines() if " flatfed train " in line]
    assert len(commands) == len(set(commands)) == len(jobs["train"]), "tables share the runs that they show"
    assert "--device cpu " in text


@full
def test_tables_and_analyses_as_targets(untouched):
    """A table has the same columns as a target. Analyses may be of other images than the protocol's."""
    trained = untouched.planned()["train"]
    folder = f"results/preview/analysis/fedsmoo-cifar10/{SHOWN}/fedavg"
    names, hessians = ("surface.npz", "surface.test.npz"), [f"{folder}/seed{seed}/hessian.json" for seed in (1, 2)]
    targets = [f"results/preview/tables/{TABLE}.csv", *(f"{folder}/seed1/{name}" for name in names), *hessians]
    text = untouched.make("--dry-run", "--printshellcmds", "--", *targets).text
    assert jobs_of(text)["train"] == {made for made in trained if "/runs/fedsmoo-cifar10/" in made}
    calls = [line for line in text.splitlines() if " flatfed surface " in line]
    sets = {Path(re.search(r" --out (\S+) ", line)[1]).name: re.search(r" --set (\S+) ", line)[1] for line in calls}
    assert sets == dict(zip(names, ("train", "test"), strict=True))
    assert len(set(re.findall(r"> (\S+\.log) ", "\n".join(calls)))) == 2
    calls = re.findall(r"flatfed hessian .*? --out (\S+) .*?--seed (\d+) ", text)
    assert sorted(calls) == [(hessians[0], "1"), (hessians[1], "2")], "drawn by the seed"


def test_a_target_decides_its_scale_and_a_call_columns_seeds_threads_data_and_the_device(untouched, tmp_path):
    """Three threads are asked for, two cores are there; a GPU may be elsewhere."""
    file = tmp_path / "cifar10.npz"
    numpy.savez(file, train_images=numpy.zeros((4, 32, 32, 3), "uint8"))
    config = [f"data={{cifar10: {{source: npz, path: {file}}}}}", "threads=3", "seeds=[4]", "device=cuda"]
    config += [f"tables=[{TABLE}]", "figures=[]"]
    targets = [f"results/paper/{CELL}", f"results/paper/tables/{TABLE}.md"]
    text = untouched.make("--dry-run", "--printshellcmds", "--config", *config, "--", *targets, env=NO_GPU).text
    assert set(re.findall(r"flatfed train .* --device (\w+) --threads (\d+) >", text)) == {("cuda", "2")}
    jobs = jobs_of(text)
    assert jobs["fetch"] == {"resources/cifar10", "resources/cifar100"} and f'"path": "{file}"' in text
    assert all("/paper/" in made for made in jobs["train"] | jobs["partition"] | jobs["cell"])
    assert not jobs.get("report") and {made[-5:] for made in jobs["train"]} == {"seed4"}
    assert len({tuple(made.split("/")[3:5]) for made in jobs["train"]}) == 16, "all columns, where none is named"


def test_cuda_without_a_gpu_ends_before_the_first_job(untouched):
    text = untouched.refused("--config", "device=cuda", "--", "resources/digits/dataset.json", env=NO_GPU)
    assert "device: cuda was requested, but this host has no GPU" in text and "device=cpu" in text
    assert "Execute" not in text
