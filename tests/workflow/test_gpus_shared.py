"""Trainings that run at once on a host of several GPUs, as Snakemake starts them: each has one of its own."""

import re

from project import SPLIT

ROWS = ("fedavg", "fedsam")
PICKED = """    import sys

    print("SEES", os.environ["CUDA_VISIBLE_DEVICES"], "FOR", name, file=sys.stderr)
    return torch.device("cpu")
"""


def test_two_trainings_at_once_see_a_gpu_each(project):
    """Two GPUs that are not there: what a training asks torch for is written down, and the CPU taken instead."""
    project.edit(
        "src/flatfed/engine/job/machine.py",
        ('    if name == "cuda" and not torch', PICKED + '    if name == "cuda" and not torch'),
    )
    project.edit_yaml("config/protocols/fedsmoo-cifar10.yaml", lambda protocol: protocol["preview"].update(rounds=30))
    runs = [f"runs/fedsmoo-cifar10/{SPLIT}/{row}/seed1" for row in ROWS]
    for run in runs:
        (project.root / "results/preview" / run / "run.json").unlink()
    wanted = [f"results/preview/{run}/run.json" for run in runs]
    done = project.snakemake(*wanted, env={"CUDA_VISIBLE_DEVICES": "4,6"})
    assert done.returncode == 0, done.text
    logs = [(project.root / f"logs/preview/train/fedsmoo-cifar10/{SPLIT}/{row}/seed1.log").read_text() for row in ROWS]
    assert sorted(re.findall(r"SEES (\S+) FOR cuda", "".join(logs))) == ["4", "6"]
