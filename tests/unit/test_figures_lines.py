"""Lines between the models of two runs: asked for in a figure's YAML, made by the rule, drawn from its files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from flatfed import experiment
from flatfed.errors import ConfigError
from flatfed.experiment import figure_specs

ROOT = Path(__file__).parents[2]

#: From FedAvg to two others on one split, and from one split to another with one algorithm.
PANELS = [
    {"title": "(a)", "split": "dir0.6-100", "rows": ["fedavg", "fedsam", "fedsmoo"]},
    {
        "title": "(b)",
        "series": [
            {"row": "fedavg", "split": "dir0.6-100", "label": "u = 0.6"},
            {"row": "fedavg", "split": "dir0.1-100", "label": "u = 0.1"},
        ],
    },
]


def load(root: Path, **changes) -> experiment.Experiment:
    """Return the experiment with one figure more, of kind line, in a copy of the configuration."""
    shutil.copytree(ROOT / "config", root / "config")
    (root / "workflow").mkdir()
    (root / "workflow" / "schemas").symlink_to(ROOT / "workflow" / "schemas")
    document = {"kind": "line", "title": "On the way", "paper": "after Li et al., 2018", "protocol": "fedsmoo-cifar10"}
    (root / "config/figures/between.yaml").write_text(yaml.safe_dump({**document, "panels": PANELS, **changes}))
    return experiment.load(root)


def test_a_panel_has_a_line_from_its_first_model_to_each_other(tmp_path: Path) -> None:
    found = figure_specs.figure_spec(load(tmp_path, metric="accuracy"), "preview", "between")
    start = "results/preview/analysis/fedsmoo-cifar10/dir0.6-100/fedavg/seed1"
    first, second = (panel.marks for panel in found.panels)
    assert [line.label for line in first] == ["FedAvg to FedSAM", "FedAvg to FedSMOO"]
    assert [line.files[0] for line in first] == [f"{start}/line+dir0.6-100+{end}.npz" for end in ("fedsam", "fedsmoo")]
    runs = [f"results/preview/runs/fedsmoo-cifar10/{split}/fedavg/seed1" for split in ("dir0.6-100", "dir0.1-100")]
    (line,) = second
    assert (line.label, line.files) == ("u = 0.6 to u = 0.1", [f"{start}/line+dir0.1-100+fedavg.npz"])
    assert [run.path for run in line.runs] == runs
    assert found.inputs[:3] == [line.files[0] for line in (*first, *second)] and found.metric == "accuracy"
    assert {f"{run}/run.json" for run in runs} <= {*found.inputs} and len(found.runs) == 4


@pytest.mark.parametrize(
    "panel",
    [
        {"title": "one model", "split": "dir0.6-100", "rows": ["fedavg"]},
        {
            "title": "models of two shapes",
            "split": "dir0.6-100",
            "series": [{"row": "fedavg"}, {"row": "fedavg", "protocol": "fedsmoo-cifar100"}],
        },
    ],
)
def test_a_line_has_two_ends_of_one_shape(tmp_path: Path, panel: dict) -> None:
    with pytest.raises(ConfigError, match=r"config/figures/between\.yaml: panels\[0\]: a line is between two models"):
        load(tmp_path, panels=[panel]).check()
