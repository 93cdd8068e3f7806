"""The configuration resolved: settings of a run, columns and notes of a table, labelled variants.

tests/old_house compares the settings of all shipped runs.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import made
from flatfed import plan
from flatfed.plan import at_scale, run_specs
from flatfed.plan.number import inputs
from flatfed.runs.paths import Paths
from repository import ROOT
from shipped import EXP

T1 = "fedsmoo2023_T1"
CIFAR10 = "fedsmoo-cifar10"


def run(scale, protocol, split, algorithm, exp=EXP, seed=1):
    return run_specs.run(exp, scale, protocol, split, algorithm, seed)


def test_a_run_is_fully_described():
    requested = run("paper", CIFAR10, "path3-100", "fedsmoo", seed=2)
    assert requested.path == "results/paper/runs/fedsmoo-cifar10/path3-100/fedsmoo/seed2"
    assert requested.partition == "results/paper/partitions/fedsmoo-cifar10/path3-100/seed2.npz"
    about = requested.config.as_json()
    own = {"penalty": 0.1, "regulariser": "paper", "rho": 0.1, "s": "official_code", "unpacking": "paper"}
    expected = {"rounds": 800, "batch_size": 50, "local_epochs": 5, "clip_norm": 10.0, "learning_rate_decay": 0.9995}
    expected |= {"update": {"name": "fedsmoo", "params": own}}
    expected |= {"model": {"name": "resnet18_gn", "options": {"stem": "imagenet", "groups": 2}}}
    expected |= {"sampling": {"scheme": "bernoulli", "fraction": 0.1, "sampler": "keyed"}}
    assert expected.items() <= about.items()
    assert about["partition"]["clients"] == 100 and "seed" not in about["partition"]
    spec = run_specs.partition_spec(EXP, "paper", CIFAR10, "path3-100", 2).as_written()
    assert spec == {"seed": 2, **about["partition"]}
    rows = EXP.tables[T1].rows
    decays = {name: run("paper", CIFAR10, "dir0.6-100", name).config.learning_rate_decay for name in rows}
    assert decays == {**dict.fromkeys(rows, 0.998), "feddyn": 0.9995, "fedsmoo": 0.9995}


def test_no_two_runs_share_a_folder():
    seen: dict[str, str] = {}
    for scale in plan.SCALES:
        for table in EXP.all_at(scale).tables:
            for requested in made.table_runs(EXP, scale, table):
                text = json.dumps(requested.config.as_json(), sort_keys=True, allow_nan=False)
                assert seen.setdefault(requested.path, text) == text
    assert len(set(seen.values())) == len(seen)


def test_keys_of_execution_are_in_the_settings_that_they_concern_alone(tmp_path):
    """Absent keys stay absent, so digests of earlier runs stay."""

    def change(protocol):
        protocol["emulate_bfloat16"] = True
        protocol["preview"].update(rows=5, state="file")

    exp = plan.load(made.edited(tmp_path, f"protocols/{CIFAR10}.yaml", change))
    preview, paper = (run(scale, CIFAR10, "path3-100", "fedavg", exp).config for scale in plan.SCALES)
    assert [(config.rows, config.state) for config in (preview, paper)] == [(5, "file"), (None, None)]
    assert not {"rows", "state", "emulate_bfloat16"} & paper.as_json().keys()
    assert not {"rows", "state"} & preview.deciding.keys()
    emulated = [run("paper", f"{CIFAR10}~bfloat16", "path3-100", "fedavg", one).config for one in (exp, EXP)]
    assert [config.as_json().get("emulate_bfloat16") for config in emulated] == [True, None]


def test_data_seeds_and_the_results_folder_of_a_call_change_nothing_else(tmp_path):
    file = tmp_path / "cifar10.npz"
    file.touch()
    source = {"source": "npz", "path": str(file)}
    request = {**EXP.request.as_written(), "data": {"cifar10": source}, "seeds": [1, 2, 3]}
    more = plan.load(ROOT, request, Paths("elsewhere/results"))
    specs = [run_specs.dataset_spec(exp.catalog, "cifar10").as_written() for exp in (more, EXP)]
    assert specs[0] == {**specs[1], "source": source}
    before, after = (
        {one.path: one.config.as_json() for one in made.table_runs(exp, "preview", T1)} for exp in (EXP, more)
    )
    assert {path: after[f"elsewhere/{path}"] for path in before} == before
    assert len(after) == len(before) * 3 // 2
    cell = made.first_number(more, "preview", T1, "cifar10-path3-100", "fedavg")
    for path in (inputs([cell])[0], at_scale.figure(more, "preview", "fedsmoo2023_F5").inputs[0]):
        assert path.startswith("elsewhere/results/preview/partitions/")


def test_curves_read_lines_record_and_partition_of_their_runs():
    """Four splits of eight rows and two seeds; the rows share partitions."""
    names = Counter(Path(path).name for path in at_scale.figure(EXP, "preview", "fedsmoo2023_F7").inputs)
    assert names == {"metrics.csv": 64, "run.json": 64, "seed1.npz": 4, "seed2.npz": 4}
