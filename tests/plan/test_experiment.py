"""The configuration resolved: settings and folders of runs. test_planned_runs.py pins those of all shipped runs."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest

import made
from flatfed import plan
from flatfed.errors import ConfigError
from flatfed.plan import at_scale, checks
from flatfed.plan.number import inputs
from flatfed.runs.paths import Paths
from repository import ROOT
from shipped import EXP

T1 = "fedsmoo2023_T1"
CIFAR10 = "fedsmoo-cifar10"


def test_the_second_pass_of_batch_norm_is_in_the_settings_where_it_is_off(tmp_path):
    """Also if an algorithm turns it on again."""

    def change(protocol):
        protocol["batch_norm_second_pass"] = True
        protocol["preview"].update(batch_norm_second_pass=False)
        protocol["preview"]["algorithms"]["fedsam"]["batch_norm_second_pass"] = True

    exp = plan.load(made.edited(tmp_path, f"protocols/{CIFAR10}.yaml", change))
    places = [("paper", "fedavg"), ("preview", "fedavg"), ("preview", "fedsam")]
    configs = [exp.run(scale, CIFAR10, "path3-100", name, 1).config for scale, name in places]
    assert [config.as_json().get("batch_norm_second_pass") for config in configs] == [None, False, None]
    settings = (config.changed("batch_norm_second_pass") for config in configs)
    assert [config.deciding for config in settings] == [
        EXP.run(scale, CIFAR10, "path3-100", name, 1).config.deciding for scale, name in places
    ]


def test_keys_of_execution_are_in_the_settings_that_they_concern_alone(tmp_path):
    """Absent keys stay absent, so digests of earlier runs stay."""

    def change(protocol):
        protocol["preview"].update(rows=5, state="file")

    def run(exp, scale, label=""):
        return exp.run(scale, CIFAR10 + label, "path3-100", "fedavg", 1).config

    exp = plan.load(made.edited(tmp_path, f"protocols/{CIFAR10}.yaml", change))
    preview, paper = (run(exp, scale) for scale in plan.SCALES)
    assert [(config.rows, config.state) for config in (preview, paper)] == [(5, "file"), (None, None)]
    assert not {"rows", "state"} & paper.as_json().keys()
    assert not {"rows", "state"} & preview.deciding.keys()


def test_a_schedule_of_a_protocol_reaches_algorithms_with_a_decay_through_a_schedule_of_their_own(tmp_path):
    """tests/config/mistakes.py has the refusal without it."""
    cosine = {"learning_rate_schedule": {"kind": "cosine", "final_learning_rate": 0.001}}

    def change(protocol):
        decaying = {name for name, block in protocol["algorithms"].items() if "learning_rate_decay" in block}
        protocol["variants"]["cosine"] = {**cosine, "algorithms": dict.fromkeys(decaying, cosine)}

    exp = plan.load(made.edited(tmp_path, f"protocols/{CIFAR10}.yaml", change))
    for name in ("fedavg", "fedsmoo"):
        config = exp.run("paper", f"{CIFAR10}~cosine", "path3-100", name, 1).config.as_json()
        assert "learning_rate_decay" not in config
        assert config["learning_rate_schedule"] == cosine["learning_rate_schedule"]


def test_milestones_of_a_variant_are_compared_with_the_rounds_of_the_paper_scale():
    """In a preview of 20 rounds, the later ones have no effect."""
    document = EXP.catalog.algorithms["fedavg"]
    for milestone, message in ((799, ""), (800, r"fedavg~step: .*milestones: 800 is not allowed; at most 799")):
        step = {"learning_rate_schedule": {"kind": "step", "milestones": [milestone], "factor": 0.1}}
        variants = {"fedavg~step": document.model_copy(update={"set": step})}
        catalog = replace(EXP.catalog, algorithms=EXP.catalog.algorithms | variants)
        with pytest.raises(ConfigError, match=message) if message else nullcontext():
            checks.check_pair(catalog, CIFAR10, "path3-100", "fedavg~step")


def test_data_seeds_and_the_results_folder_of_a_call_change_nothing_else(tmp_path):
    file = tmp_path / "cifar10.npz"
    file.touch()
    source = {"source": "npz", "path": str(file)}
    request = {**EXP.request.as_written(), "data": {"cifar10": source}, "seeds": [1, 2, 3]}
    more = plan.load(ROOT, request, Paths("elsewhere/results"))
    specs = [exp.catalog.dataset_spec("cifar10").as_written() for exp in (more, EXP)]
    assert specs[0] == {**specs[1], "source": source}
    before, after = (
        {one.path: one.config.as_json() for one in made.table_runs(exp, "preview", T1)} for exp in (EXP, more)
    )
    assert {path: after[f"elsewhere/{path}"] for path in before} == before
    assert len(after) == len(before) * 3 // 2
    cell = made.first_number(more, "preview", T1, "cifar10-path3-100", "fedavg")
    for path in (inputs([cell])[0], at_scale.figure(more, "preview", "fedsmoo2023_F5").inputs[0]):
        assert path.startswith("elsewhere/results/preview/partitions/")
