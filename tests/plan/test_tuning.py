"""What papers tuned without saying what they chose: grids, the runs that try them, and runs that take the choices."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import made
from flatfed import plan
from flatfed.errors import ConfigError
from flatfed.files import sealed
from flatfed.plan import Requested, at_scale, tuning
from flatfed.runs import tuning_choice
from flatfed.runs.paths import Paths
from repository import ROOT
from shipped import EXP

CIFAR10, SPLIT = "fedsam-cifar10", "dir0.6-100-p20"
OFFICE, ART, CLIPART = "fedlesam-officehome", "domain-art-1", "domain-clipart-1"
FEDSAM, MOFEDSAM = (("preview", CIFAR10, SPLIT, row) for row in ("fedsam", "mofedsam"))


def load(root: Path = ROOT, results: Path | str = "results", **changes) -> plan.Experiment:
    config = {"scale": "preview", "tables": [], "figures": [], "tune": True, **changes}
    return plan.load(root, config, Paths(str(results)))


@pytest.fixture(scope="module")
def tuned():
    return load()


@pytest.fixture
def mine(tuned, tmp_path):
    """The shipped configuration that takes choices from a folder of its own."""
    return replace(tuned, paths=Paths(str(tmp_path)))


def edited(folder: Path, change) -> Path:
    """Copy config/ to ``folder`` and apply ``change`` to FedSAM's protocol."""
    return made.edited(folder, f"protocols/{CIFAR10}.yaml", change)


def record(exp: plan.Experiment, ids: tuple, chosen: dict) -> Path:
    """Record a choice as ``flatfed choose`` does, without its runs."""
    search = tuning.search(exp.catalog, *ids)
    path = Path(tuning.choice_path(exp.paths, search))
    tuning_choice.write(path, tuning.choice_spec(exp.catalog, exp.paths, search).model_copy(update={"chosen": chosen}))
    return path


def test_a_tuning_run_is_evaluated_on_the_images_that_the_accuracy_of_the_protocol_is_of():
    """tests/old_house compares the settings of all tuning runs."""
    for protocol, split, sets, accuracy in (
        (CIFAR10, SPLIT, ["validation", "clients"], "client_validation_accuracy"),
        (OFFICE, ART, ["validation"], "validation_accuracy"),
    ):
        search = tuning.search(EXP.catalog, "preview", protocol, split, "fedsam")
        assert tuning.choice_spec(EXP.catalog, EXP.paths, search).accuracy == accuracy
        assert next(iter(tuning.runs(EXP.catalog, EXP.paths, search))).config.evaluation.sets == sets
    with pytest.raises(ConfigError, match=r"unknown point 'learning_rate=0\.3'.*known: rho="):
        tuning.run(EXP.catalog, EXP.paths, search, "learning_rate=0.3")
    for ids, words in (
        (("fedsmoo-cifar10", "dir0.6-100", "fedsam"), "the protocol does not tune it"),
        ((CIFAR10, "iid-100-p20", "fedsam"), f"its search is results/preview/tuning/{CIFAR10}/{SPLIT}/fedsam"),
    ):
        with pytest.raises(ConfigError, match=words):
            tuning.search_at(EXP.catalog, EXP.paths, "preview", *ids)


def test_runs_take_the_recorded_choice_and_nothing_else(mine):
    record(mine, MOFEDSAM, {"learning_rate": 10**-1.5, "alpha": 0.01})
    for split in (SPLIT, "iid-100-p20"):
        question = ("preview", CIFAR10, split, "mofedsam", 2)
        plain = EXP.run(*question).config.as_json()
        update = {**plain["update"], "params": {**plain["update"]["params"], "alpha": 0.01}}
        expected = {**plain, "learning_rate": 10**-1.5, "update": update}
        assert mine.run(*question).config.as_json() == expected
    record(mine, FEDSAM, {"learning_rate": 0.1})
    assert mine.run(*FEDSAM, 1).config == EXP.run(*FEDSAM, 1).config, "as without a choice"


def test_variants_take_what_they_do_not_set_themselves(tmp_path):
    change = {"K1": {"local_epochs": 1}, "slow": {"learning_rate": 0.03}}
    root = edited(tmp_path, lambda protocol: protocol.update(variants=change))
    for path in (root / "config/figures").glob("fedsam2022_F*.yaml"):
        path.unlink()
    variant = {"mofedsam~mine": {"label": "Mine", "set": {"alpha": 0.7}}}
    mine = load(made.edited(root, "algorithms.yaml", lambda content: content.update(variant)), tmp_path / "results")
    record(mine, MOFEDSAM, {"learning_rate": 10**-1.5, "alpha": 0.01})
    for protocol, row, chosen in (
        (f"{CIFAR10}~K1", "mofedsam", (10**-1.5, 0.01)),
        (CIFAR10, "mofedsam~mine", (10**-1.5, 0.7)),
        (f"{CIFAR10}~slow", "mofedsam", (0.03, 0.01)),
    ):
        config = mine.run("preview", protocol, SPLIT, row, 1).config
        assert (config.learning_rate, config.update.params["alpha"]) == chosen


def test_a_run_without_its_choice_is_refused(mine):
    with pytest.raises(ConfigError, match=r"fedsam/choice\.json, which does not exist yet; make it: snakemake --cores"):
        mine.run(*FEDSAM, 1)
    assert mine.run("preview", "fedsmoo-cifar10", "dir0.6-100", "fedsam", 1), "nothing of this one is tuned"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda one: one["tune"]["grids"]["fedsam"].update(learning_rate=[0.2, 0.1]), r"grid \{.*0\.31.*has \{.*0\.2"),
        (lambda one: one["tune"].update(seed=5), "with seed 1, but the configuration has 5"),
        (lambda one: one["tune"].update(validation=0.2), r"with validation 0\.1, but the configuration has 0\.2"),
        (lambda one: one["preview"].update(rounds=5), f"another set-up than that of {CIFAR10}"),
        (lambda one: one.pop("accuracy"), 'accuracy "client_validation_accuracy", but .* has "validation_accuracy"'),
    ],
    ids=["grid", "seed", "share", "set-up", "accuracy"],
)
def test_a_stale_choice_is_refused(tmp_path, mine, change, words):
    record(mine, FEDSAM, {"learning_rate": 0.1})
    with pytest.raises(ConfigError, match=f"fedsam/choice.json: was chosen .*{words}.*rerun: snakemake"):
        load(edited(tmp_path, change), tmp_path).run(*FEDSAM, 1)


def test_a_choice_stays_if_only_execution_changes(tmp_path, mine):
    executor = {"cpu": "sequential", "cuda": "sequential"}
    record(mine, FEDSAM, {"learning_rate": 0.1})
    for run in tuning.runs(mine.catalog, mine.paths, tuning.search(mine.catalog, *FEDSAM)):
        made.run(run.path, {"round": [1]}, settings=run.config.as_json())
    changed = edited(tmp_path, lambda protocol: protocol["preview"].update(executor=executor))
    config = load(changed, tmp_path).run(*FEDSAM, 1).config
    assert (config.executor.cpu, config.learning_rate) == ("sequential", 0.1)


@pytest.mark.parametrize(("version", "note"), [(1, ""), (0, "of runs of other code than the present")])
def test_a_choice_of_runs_of_other_code_has_a_note(mine, capsys, version, note):
    run = Path(tuning_choice.read(record(mine, FEDSAM, {"learning_rate": 0.1})).points[-1].run)
    run.mkdir(parents=True)
    (run / "run.json").write_text(json.dumps({"versions": {"algorithm": version}}))
    mine.run(*FEDSAM, 1)
    assert note in (warning := capsys.readouterr().err) and bool(warning) is bool(note)


def test_a_choice_that_is_none_is_refused(mine):
    path = record(mine, FEDSAM, {"learning_rate": 0.1})
    good = json.loads(path.read_text())
    no_point = json.dumps(sealed({**good, "chosen": {"learning_rate": 0.7}}, tuning_choice.SEAL_KEY))
    for content, words in (
        ("{", "not a choice"),
        ("[]", "not a choice"),
        (no_point, r'chosen is \{"learning_rate": 0\.7\}, which is no point'),
        (json.dumps({**good, "chosen": {"learning_rate": 0.01}}), "was changed after it was written"),
    ):
        path.write_text(content)
        with pytest.raises(ConfigError, match=words):
            mine.run(*FEDSAM, 1)


def test_choices_of_several_splits_are_distinguished_and_not_also_called_ours(mine):
    """FedLESAM's rho is left open by the paper; where it was tuned here, the protocol's value does not hold."""
    columns = ["officehome-domain-art-1", "officehome-domain-clipart-1"]
    ids, ours = ("paper", "fedlesam2024_T3", columns), "Not stated by the paper, rho: 0.01 for every row"
    assert [line for line in at_scale.table(EXP, *ids).notes if line.startswith(ours)]
    for search in at_scale.searches(mine, "paper", Requested({"fedlesam2024_T3": columns}, [])):
        chosen = {"rho": 0.05 if search.split == ART else 0.01}
        record(mine, ("paper", OFFICE, search.split, search.row), chosen)
    notes = at_scale.table(mine, *ids).notes
    tuned = [note for note in notes if note.startswith("Tuned")]
    for line, split, rho in zip(tuned, (ART, CLIPART), (0.05, 0.01), strict=True):
        assert f"{split}), rho out of 0.05, 0.01, 0.005, 0.001, 0.0005: FedSAM {rho}; MoFedSAM {rho}" in line
    assert not [line for line in notes if line.startswith(ours)]
    assert [line for line in notes if line.startswith("Not stated by the paper, penalty: 0.1")]
