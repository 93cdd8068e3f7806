"""Two trainings at once: each has a GPU of its own."""

import re

from project import RUNS, log_of

from samples import full

ROWS = ("fedavg", "fedsam")
NAMED = [f"{RUNS}/{row}/seed1/run.json" for row in ROWS]
CHOICE = '    if name == "cuda" and not torch'
PICKED = """    import sys

    print("SEES", os.environ["CUDA_VISIBLE_DEVICES"], "FOR", name, file=sys.stderr)
    return torch.device("cpu")
"""


@full
def test_two_trainings_at_once_have_a_gpu_each(project):
    """The two GPUs do not exist: a training writes down what it asks torch for, and takes the CPU instead."""
    project.edit("src/flatfed/engine/job/machine.py", (CHOICE, PICKED + CHOICE))
    project.preview(rounds=60)
    text = project.make(*NAMED, env={"CUDA_VISIBLE_DEVICES": "4,6"}).text
    assert "there is no GPU here" not in text
    logs = [(project.root / log_of(f"{RUNS}/{row}/seed1")).read_text() for row in ROWS]
    assert sorted(re.findall(r"SEES (\S+) FOR cuda", "".join(logs))) == ["4", "6"]
