"""What papers tuned without saying what they chose: grids, the runs that try them, and runs that take the choices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import made
from flatfed import plan
from flatfed.errors import ConfigError
from flatfed.files import sealed
from flatfed.plan import Requested, at_scale, run_specs, tuning
from flatfed.runs import tuning_choice
from flatfed.runs.paths import DEFAULT, Paths
from repository import ROOT

CIFAR10, SPLIT = "fedsam-cifar10", "dir0.6-100-p20"
OFFICE, ART, CLIPART = "fedlesam-officehome", "domain-art-1", "domain-clipart-1"


def load(root: Path = ROOT, results: Path | str = "results", **changes) -> plan.Experiment:
    config = {"scale": "preview", "tables": [], "figures": [], **changes}
    return plan.load(root, config, Paths(str(results)))


@pytest.fixture(scope="module")
def exp() -> plan.Experiment:
    return load()


def edited(folder: Path, protocol: str, change) -> Path:
    """Copy config/ to ``folder`` and apply ``change`` to a protocol."""
    return made.edited(folder, f"protocols/{protocol}.yaml", change)


def record(exp: plan.Experiment, ids: tuple, chosen: dict) -> Path:
    """Record a choice as ``flatfed choose`` does, without its runs."""
    found = tuning.search(exp.catalog, *ids)
    path = Path(tuning.choice_path(exp.paths, found))
    tuning_choice.write(path, tuning.choice_spec(exp.catalog, exp.paths, found).model_copy(update={"chosen": chosen}))
    return path


def test_grids_of_several_keys_are_the_product_in_the_order_of_the_file(exp):
    found = tuning.search(exp.catalog, "paper", CIFAR10, SPLIT, "mofedsam")
    points = found.combinations()
    assert len(points) == 4 * 5
    assert list(points)[:2] == ["learning_rate=0.316228,alpha=0.01", "learning_rate=0.316228,alpha=0.1"]
    assert points["learning_rate=0.316228,alpha=0.1"] == {"learning_rate": 10**-0.5, "alpha": 0.1}
    assert (found.seed, found.validation) == (1, 0.1)


def test_preview_tries_the_first_three_values(exp):
    found = tuning.search(exp.catalog, "preview", CIFAR10, SPLIT, "mofedsam")
    assert found.grid == {"learning_rate": [10**-0.5, 0.1, 10**-1.5], "alpha": [0.01, 0.1, 0.2]}
    assert len(found.combinations()) == 9


def test_fedsam_chooses_for_each_dataset_and_fedlesam_for_each_domain_held_out(exp):
    assert tuning.search(exp.catalog, "paper", CIFAR10, "iid-100-p20", "fedsam").split == SPLIT
    for split in (ART, CLIPART):
        assert tuning.search(exp.catalog, "paper", OFFICE, split, "fedsam").split == split
    assert tuning.search(exp.catalog, "paper", OFFICE, ART, "fedavg") is None
    assert tuning.search(exp.catalog, "paper", "fedsmoo-cifar10", "dir0.6-100", "fedsam") is None


def test_what_everything_needs_is_found_once(exp):
    found = at_scale.searches(exp, "paper", exp.all_at("paper"))
    folders = [one.folder(DEFAULT) for one in found]
    assert len(set(folders)) == len(folders) == 3 * 7 + 20 * 7
    assert sum(len(one.combinations()) for one in found) == 3 * (4 * 4 + 3 * 20) + 140 * 5
    assert at_scale.searches(exp, "paper", Requested({"fedsmoo2023_T1": None}, ["fedsmoo2023_F7"])) == []


@pytest.mark.parametrize("scale", ["paper", "preview"])
def test_a_tuning_run_is_the_ordinary_one_but_for_the_point_and_the_images(exp, scale):
    ordinary = run_specs.run(exp, scale, CIFAR10, SPLIT, "mofedsam", 1)
    found = tuning.search(exp.catalog, scale, CIFAR10, SPLIT, "mofedsam")
    run = tuning.run(exp.catalog, exp.paths, found, "learning_rate=0.0316228,alpha=0.2")
    assert run.path == f"results/{scale}/tuning/{CIFAR10}/{SPLIT}/mofedsam/learning_rate=0.0316228,alpha=0.2"
    assert run.analysis_folder == run.path
    assert (run.partition, run.dataset) == (ordinary.partition, ordinary.dataset)
    settings, plain = run.config.as_json(), ordinary.config.as_json()
    changed = {key for key in settings if settings[key] != plain.get(key)}
    assert changed == {"learning_rate", "update", "evaluation", "validation"}
    assert run.config.learning_rate == 10**-1.5
    assert run.config.update.params == {**ordinary.config.update.params, "alpha": 0.2}
    assert settings["evaluation"] == {**plain["evaluation"], "sets": ["validation", "clients"]}
    assert settings["validation"] == 0.1 and "validation" not in plain
    with pytest.raises(ConfigError, match=r"unknown point 'learning_rate=0\.3'.*known: learning_rate="):
        tuning.run(exp.catalog, exp.paths, found, "learning_rate=0.3")


def test_runs_take_the_recorded_choice(exp, tmp_path):
    ids = ("preview", CIFAR10, SPLIT, "mofedsam")
    mine = load(results=tmp_path, tune=True)
    record(mine, ids, {"learning_rate": 10**-1.5, "alpha": 0.01})
    for split in (SPLIT, "iid-100-p20"):
        run = run_specs.run(mine, "preview", CIFAR10, split, "mofedsam", 2)
        plain = run_specs.run(exp, "preview", CIFAR10, split, "mofedsam", 2).config.as_json()
        assert (run.config.learning_rate, run.config.update.params["alpha"]) == (10**-1.5, 0.01)
        params = {**plain["update"]["params"], "alpha": 0.01}
        expected = {**plain, "learning_rate": 10**-1.5, "update": {**plain["update"], "params": params}}
        assert run.config.as_json() == expected, "and nothing else"


def test_a_choice_of_what_was_there_leaves_the_run_as_it_was(exp, tmp_path):
    mine = load(results=tmp_path, tune=True)
    record(mine, ("preview", CIFAR10, SPLIT, "fedsam"), {"learning_rate": 0.1})
    ids = ("preview", CIFAR10, SPLIT, "fedsam", 1)
    assert run_specs.run(mine, *ids).config.as_json() == run_specs.run(exp, *ids).config.as_json()


def test_variants_take_what_they_do_not_set_themselves(tmp_path):
    change = {
        "K1": {"local_epochs": 1},
        "slow": {"learning_rate": 0.03},
    }
    root = edited(tmp_path, CIFAR10, lambda protocol: protocol.update(variants=change))
    for path in (root / "config/figures").glob("fedsam2022_F*.yaml"):
        path.unlink()
    with (root / "config/algorithms.yaml").open("a") as file:
        file.write("mofedsam~mine: {label: Mine, set: {alpha: 0.7}}\n")
    mine = load(root, tmp_path / "results", tune=True)
    record(mine, ("preview", CIFAR10, SPLIT, "mofedsam"), {"learning_rate": 10**-1.5, "alpha": 0.01})
    taken = {}
    for protocol, row in ((f"{CIFAR10}~K1", "mofedsam"), (CIFAR10, "mofedsam~mine"), (f"{CIFAR10}~slow", "mofedsam")):
        about = run_specs.run(mine, "preview", protocol, SPLIT, row, 1).config.as_json()
        taken[protocol, row] = about["learning_rate"], about["update"]["params"]["alpha"]
    assert list(taken.values()) == [(10**-1.5, 0.01), (10**-1.5, 0.7), (0.03, 0.01)]


def test_a_run_without_its_choice_is_refused(tmp_path):
    mine = load(results=tmp_path, tune=True)
    for scale in plan.SCALES:
        call = f"which does not exist yet; make it: snakemake --cores all --config scale={scale} -- "
        with pytest.raises(ConfigError, match=f"fedsam/choice.json, {call}"):
            run_specs.run(mine, scale, CIFAR10, SPLIT, "fedsam", 1)
    assert run_specs.run(mine, "preview", "fedsmoo-cifar10", "dir0.6-100", "fedsam", 1), "nothing of this one is tuned"
    needed = at_scale.searches(mine, "preview", Requested({"fedsam2022_T1": None}, []))
    assert needed, "what to choose is known without choices"


def test_a_choice_reads_the_accuracy_that_the_protocol_names(exp):
    for protocol, split, row, sets, accuracy in (
        (CIFAR10, SPLIT, "fedsam", ["validation", "clients"], "client_validation_accuracy"),
        (OFFICE, ART, "fedsam", ["validation"], "validation_accuracy"),
    ):
        found = tuning.search(exp.catalog, "preview", protocol, split, row)
        assert tuning.choice_spec(exp.catalog, exp.paths, found).accuracy == accuracy
        point = next(iter(found.combinations()))
        assert tuning.run(exp.catalog, exp.paths, found, point).config.evaluation.sets == sets


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
def test_a_stale_choice_is_refused(tmp_path, change, words):
    ids = ("preview", CIFAR10, SPLIT, "fedsam")
    record(load(results=tmp_path / "results"), ids, {"learning_rate": 0.1})
    mine = load(edited(tmp_path, CIFAR10, change), tmp_path / "results", tune=True)
    with pytest.raises(ConfigError, match=f"fedsam/choice.json: was chosen .*{words}.*rerun: snakemake"):
        run_specs.run(mine, *ids, 1)


def test_a_choice_stays_if_only_execution_changes(tmp_path):
    ids, executor = ("preview", CIFAR10, SPLIT, "fedsam"), {"cpu": "sequential", "cuda": "sequential"}
    before = load(results=tmp_path / "results")
    record(before, ids, {"learning_rate": 0.1})
    for run in tuning.runs(before.catalog, before.paths, tuning.search(before.catalog, *ids)):
        made.run(run.path, {"round": [1]}, settings=run.config.as_json())
    changed = edited(tmp_path, CIFAR10, lambda protocol: protocol["preview"].update(executor=executor))
    config = run_specs.run(load(changed, tmp_path / "results", tune=True), *ids, 1).config
    assert (config.executor.cpu, config.learning_rate) == ("sequential", 0.1)


def test_a_choice_of_runs_of_other_code_has_a_note(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ids = ("preview", CIFAR10, SPLIT, "fedsam")
    mine = load(results=Path("results"), tune=True)
    path = record(mine, ids, {"learning_rate": 0.1})
    point = tuning_choice.read(path).points[-1]
    other = f"{path}: of runs of other code than the present: algorithm is version 0, now 1"
    for version, note in ((1, ""), (0, other)):
        Path(point.run).mkdir(parents=True, exist_ok=True)
        Path(point.run, "run.json").write_text(json.dumps({"versions": {"algorithm": version}}))
        run_specs.run(load(results=Path("results"), tune=True), *ids, 1)
        warning = capsys.readouterr().err
        assert note in warning and bool(warning) is bool(note)


def test_a_choice_that_is_none_is_refused(tmp_path):
    ids = ("preview", CIFAR10, SPLIT, "fedsam")
    mine = load(results=tmp_path, tune=True)
    path = record(mine, ids, {"learning_rate": 0.1})
    good = json.loads(path.read_text())
    for content, words in (
        ("{", "not a choice"),
        ("[]", "not a choice"),
        (
            json.dumps(sealed({**good, "chosen": {"learning_rate": 0.7}}, tuning_choice.SEAL_KEY)),
            r'chosen is \{"learning_rate": 0\.7\}, which is no point',
        ),
        (
            json.dumps({**good, "chosen": {"learning_rate": 0.01}}),
            "was changed after it was written",
        ),
    ):
        path.write_text(content)
        with pytest.raises(ConfigError, match=words):
            run_specs.run(mine, *ids, 1)


#: What is changed under ``tune``, and the words of the message.
MISTAKES = {
    "split": ({"split": "dir0.6-100-p21"}, "tune.split: unknown split .*did you mean 'dir0.6-100-p20'"),
    "split of another dataset": ({"split": "domain-art-1"}, "domain-art-1.domain.*unknown domain 'art'"),
    "split with a topology": ({"split": "dir0.6-100-norep-ring"}, "tune.split: .*'fedavg' cannot train on split"),
    "share": ({"validation": 0.001}, r"tune\.validation: 0\.001 of the 500 images .* less than one"),
    "share at preview scale": ({"validation": 0.01}, r"0\.01 of the 43 images .* preview scale.* at least 0\.023"),
    "all images": ({"validation": 1}, r"tune\.validation: 1 is not allowed"),
    "seed": ({"seed": 0}, r"tune\.seed: 0 is not allowed"),
    "key": ({"grids": {"fedsam": {"roh": [1]}}}, "tune.grids.fedsam: unknown key 'roh'; did you mean 'rho'"),
    "key of all rows": ({"grids": {"fedsam": {"rounds": [1]}}}, "tune.grids.fedsam: unknown key 'rounds'"),
    "bounds": ({"grids": {"fedsam": {"rho": [-1]}}}, r"tune\.grids\.fedsam\.rho"),
    "row": ({"grids": {"fedsan": {"rho": [1]}}}, "unknown algorithm 'fedsan'; did you mean 'fedsam'"),
    "value twice": ({"grids": {"fedsam": {"rho": [0.1, 0.2, 0.1]}}}, r"tune\.grids\.fedsam\.rho: 0\.1 is given twice"),
    "no value": ({"grids": {"fedsam": {"rho": []}}}, r"tune\.grids\.fedsam\.rho: .* expected .* at least 1"),
    "no key": ({"grids": {"fedsam": {}}}, "tune.grids.fedsam: .* expected .* at least 1"),
}


@pytest.mark.parametrize(("change", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_search_that_cannot_be_made_is_refused(tmp_path, change, words):
    root = edited(tmp_path, CIFAR10, lambda protocol: protocol["tune"].update(change))
    with pytest.raises(ConfigError, match=words):
        load(root).check()


def test_a_share_too_small_for_a_split_of_its_own_is_refused_before_the_first_job(tmp_path):
    root = edited(tmp_path, OFFICE, lambda protocol: protocol["tune"].update(validation=0.001))
    exp = load(root)
    with pytest.raises(ConfigError, match=r"tune\.validation: 0\.001 of the \d+ images .*domain-art-10"):
        at_scale.searches(exp, "preview", Requested({"fedlesam2024_T3": ["officehome-domain-art-10"]}, []))


def test_what_is_not_tuned_has_no_choice(exp):
    for ids, words in (
        (("fedsmoo-cifar10", "dir0.6-100", "fedsam"), "the protocol does not tune it"),
        (
            (CIFAR10, "iid-100-p20", "fedsam"),
            f"its search is results/preview/tuning/{CIFAR10}/{SPLIT}/fedsam",
        ),
        ((CIFAR10, SPLIT, "fedsan"), "unknown algorithm 'fedsan'; did you mean 'fedsam'"),
        (("fedsam-cifar1", SPLIT, "fedsam"), "unknown protocol 'fedsam-cifar1'"),
    ):
        with pytest.raises(ConfigError, match=words):
            tuning.search_at(exp.catalog, exp.paths, "preview", *ids)


def test_tables_say_what_was_tuned_and_what_was_not(exp, tmp_path):
    columns = [column for column in exp.tables["fedsam2022_T1"].columns if column.startswith("cifar10-")]
    before = at_scale.table(exp, "preview", "fedsam2022_T1", columns).notes
    assert len([line for line in before if line.startswith("Untuned, FedAvg, SCAFFOLD")]) == 1
    mine = load(results=tmp_path, tune=True)
    rates = dict.fromkeys(["fedavg", "scaffold", "fedrobust", "fedsam"], 0.1) | {"scaffold": 10**-0.5}
    for row in ("fedavg", "scaffold", "fedrobust", "fedcm", "mimelite", "fedsam", "mofedsam"):
        momentum = {"alpha": 0.2} if row in ("fedcm", "mimelite", "mofedsam") else {}
        record(mine, ("preview", CIFAR10, SPLIT, row), {"learning_rate": rates.get(row, 0.1), **momentum})
    after = at_scale.table(mine, "preview", "fedsam2022_T1", columns).notes
    assert [line for line in after if "uned" in line] == [
        "Tuned on a validation part (10 % of every client's training images, seed 1; FedSAM's set-up on CIFAR-10, "
        f"{SPLIT}), learning rate out of 0.3162, 0.1, 0.03162: FedAvg 0.1; SCAFFOLD 0.3162; FedRobust 0.1; FedCM 0.1; "
        "MimeLite 0.1; FedSAM 0.1; MoFedSAM 0.1.",
        "Tuned on a validation part (10 % of every client's training images, seed 1; FedSAM's set-up on CIFAR-10, "
        f"{SPLIT}), alpha out of 0.01, 0.1, 0.2: FedCM 0.2; MimeLite 0.2; MoFedSAM 0.2.",
    ]


def test_choices_of_several_splits_are_told_apart(tmp_path):
    mine = load(results=tmp_path, tune=True)
    columns = ["officehome-domain-art-1", "officehome-domain-clipart-1"]
    for row in at_scale.searches(mine, "preview", Requested({"fedlesam2024_T3": columns}, [])):
        record(mine, ("preview", OFFICE, row.split, row.row), {"rho": 0.05 if row.split == ART else 0.01})
    notes = at_scale.table(mine, "preview", "fedlesam2024_T3", columns).notes
    tuned = [note for note in notes if note.startswith("Tuned")]
    for line, split, rho in zip(tuned, (ART, ART.replace("art", "clipart")), (0.05, 0.01), strict=True):
        assert f"{split}), rho out of 0.05, 0.01, 0.005: FedSAM {rho}; MoFedSAM {rho}" in line


def test_what_was_chosen_is_not_also_said_to_be_ours(exp, tmp_path):
    """FedLESAM's rho is left open by the paper; where it was tuned here, the protocol's value does not hold."""
    ids = ("paper", "fedlesam2024_T3", ["officehome-domain-art-1"])
    ours = "Not stated by the paper, rho: 0.01 for every row"
    assert [line for line in at_scale.table(exp, *ids).notes if line.startswith(ours)]
    mine = load(results=tmp_path, tune=True, scale="paper")
    for found in at_scale.searches(mine, "paper", Requested(dict([ids[1:]]), [])):
        record(mine, ("paper", OFFICE, ART, found.row), {"rho": 0.05})
    after = at_scale.table(mine, *ids).notes
    assert not [line for line in after if line.startswith(ours)]
    assert [line for line in after if line.startswith("Not stated by the paper, penalty: 0.1")]
