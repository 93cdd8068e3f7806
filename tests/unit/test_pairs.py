"""Which algorithm trains on which split: topologies, centralised training, and algorithms from outside our tree."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from flatfed import algorithms, experiment
from flatfed.data import keys
from flatfed.engine import versions
from flatfed.errors import ConfigError
from flatfed.experiment import figure_specs, run_specs, table_specs
from flatfed.experiment.table_specs import source_followed
from flatfed.runs import identity

ROOT = Path(__file__).parents[2]
PROTOCOL = "fedsmoo-cifar10"
SPLIT = "{label: [x], scheme: dirichlet, alpha: 0.7, clients: 100, participation: 1, sampling: all, topology: %s}"


def project(tmp_path: Path, **splits: str) -> Path:
    """Return a copy of the configuration with more splits."""
    shutil.copytree(ROOT / "config", tmp_path / "config")
    with open(tmp_path / "config" / "splits.yaml", "a") as file:
        for name, text in splits.items():
            file.write(f"{name}: {text}\n")
    return tmp_path


def test_a_topology_reaches_the_run_and_shrinks_with_the_clients(tmp_path):
    root = project(tmp_path, mine=SPLIT % "clique, neighbours: 10")
    exp = experiment.load(root)
    wide = run_specs.run(exp, "paper", PROTOCOL, "mine", "dfedsam", 1).description
    assert wide["topology"] == {"graph": "clique", "neighbours": 10} and wide["partition"]["clients"] == 100
    small = run_specs.run(exp, "preview", PROTOCOL, "mine", "dfedsam", 1).description
    assert small["topology"] == {"graph": "clique", "neighbours": 3} and small["partition"]["clients"] == 30
    assert "topology" not in run_specs.run(exp, "paper", PROTOCOL, "dir0.6-100", "fedavg", 1).description




def test_algorithm_and_split_must_fit(tmp_path):
    root = project(
        tmp_path,
        mine=SPLIT % "clique, neighbours: 30",
        one="{label: [x], scheme: central, clients: 1, participation: 1}",
    )
    exp = experiment.load(root)
    for split, name, words in (
        ("dir0.6-100", "dfedavg", ["'dfedavg'", "'dir0.6-100'", "has no topology", "ring, grid"]),
        ("mine", "fedavg", ["'fedavg'", "'mine'", "it has a server", "clique", "dfedsam"]),
        ("dir0.6-100", "centralised_sgd", ["'centralised_sgd'", "all data in one client", "dirichlet"]),
        ("mine", "dfedsam_mgs", ["'dfedsam_mgs'", "4 gossip steps", "cliques of 30", "allow at most 3"]),
    ):
        with pytest.raises(ConfigError) as caught:
            run_specs.run(exp, "paper", PROTOCOL, split, name, 1)
        for word in (PROTOCOL, *words):
            assert word in str(caught.value)
    assert (
        run_specs.run(exp, "paper", PROTOCOL, "one", "centralised_sgd", 1).description["update"]["name"]
        == "centralised_sgd"
    )


def test_a_round_of_a_central_split_has_the_steps_of_a_federated_one(tmp_path):
    one = "{label: [x], scheme: central, clients: 1, participation: 1, steps_of: %s}"
    exp = experiment.load(project(tmp_path, one=one % "dir0.1-100", other=one % "dir0.1-200"))
    # 10 of 100 clients with 500 images in batches of 50, five epochs; 10 of 200 clients with 250 images.
    assert run_specs.run(exp, "paper", PROTOCOL, "one", "centralised_sgd", 1).description["local_steps"] == 10 * 5 * 10
    assert run_specs.run(exp, "paper", PROTOCOL, "other", "centralised_sam", 1).description["local_steps"] == 10 * 5 * 5
    # CIFAR-100, 200 clients: 250 images in batches of 20 are 13, the last one smaller.
    cifar100 = run_specs.run(exp, "paper", "fedsmoo-cifar100", "other", "centralised_sgd", 1).description
    assert cifar100["local_steps"] == 10 * 2 * 13


def test_a_central_split_can_have_the_images_of_a_federated_one(tmp_path):
    """At both scales the deal of the federated clients stands in its own, and decides the run."""
    one = "{label: [x], scheme: central, clients: 1, participation: 1, steps_of: dir0.1-100%s}"
    exp = experiment.load(project(tmp_path, one=one % ", images_of: dir0.1-100", other=one % ""))
    for scale in ("paper", "preview"):
        mine, plain = (run_specs.partition_spec(exp, scale, PROTOCOL, split, 1) for split in ("one", "other"))
        theirs = run_specs.partition_spec(exp, scale, PROTOCOL, "dir0.1-100", 1)
        assert plain == {key: value for key, value in mine.items() if key != "images_of"}
        assert keys.pooled(mine) == theirs and (mine["scheme"], mine["clients"]) == ("central", 1)
        about = [
            run_specs.run(exp, scale, PROTOCOL, split, "centralised_sgd", 1).description for split in ("one", "other")
        ]
        about[1] |= {"split": "one"}
        told = identity.deciding_differences(about[1], about[0])
        assert told and all(line.startswith("partition.images_of.") for line in told)


MINE = '''from flatfed.algorithms._parameters import Number
from flatfed.algorithms.fedavg import FedAvg


class FedSign(FedAvg):
    """The server takes the signs of the mean update."""

    size = Number(0.01, "step of the server", minimum=0)

    def aggregate(self, server, uploads, ctx):
        """w <- w + size sign(mean)."""
        server["w"].add_((uploads["w"].mean(dim=0, keepdim=True) - server["w"]).sign_(), alpha=self.size)
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder outside our tree with an algorithm in it; forget it afterwards."""
    monkeypatch.setattr(algorithms, "__path__", list(algorithms.__path__))
    outside = tmp_path / "mine"
    outside.mkdir()
    (outside / "fedsign.py").write_text(MINE)
    return outside


def test_an_algorithm_outside_our_tree_is_a_row_like_any_other(tmp_path, folder):
    config = experiment.load(ROOT).config
    exp = experiment.load(ROOT, {**config, "algorithm_folders": [str(folder)]})
    run = run_specs.run(exp, "preview", PROTOCOL, "dir0.6-100", "fedsign", 1)
    assert run.description["update"] == {"name": "fedsign", "params": {"size": 0.01, "server_learning_rate": 1.0}}
    assert exp.catalog.algorithms["fedsign"]["label"] == "FedSign"
    before = versions.of_run(run.description)
    (folder / "fedsign.py").write_text(MINE.replace("alpha=self.size", "alpha=2 * self.size"))
    assert versions.of_run(run.description) == before, "as imported"
    algorithms.FILES.digests.clear()  # another process
    changed = versions.of_run(run.description)
    assert {key for key in before if changed[key] != before[key]} == {"algorithm"}


def test_folders_that_cannot_be_are_refused(folder, tmp_path):
    with pytest.raises(ConfigError, match="algorithm_folders: 'nowhere' is not a folder"):
        algorithms.look_in(["nowhere"], "config.yaml: algorithm_folders")
    (folder / "fedsign.py").rename(folder / "fedavg.py")
    with pytest.raises(ConfigError, match=r"fedavg.py: flatfed.algorithms has 'fedavg' already"):
        algorithms.look_in([folder], "config.yaml: algorithm_folders")


def test_tables_say_where_paper_and_official_code_part():
    notes = table_specs.table_spec(experiment.load(ROOT), "paper", "fedsmoo2023_T1").notes
    said = [line for line in notes if " is followed in " in line]
    assert [line for line in said if line.startswith("FedSMOO: ")] == [
        "FedSMOO: the official code is followed in s, the global perturbation from mu_i alone, or from mu_i minus the "
        "last perturbation (what the authors' code runs, as repaired in FL-Simulator@502bec6; they call the other term "
        "small)."
    ]
    assert any(line.startswith("SCAFFOLD, FedCM, MoFedSAM: the paper is followed in steps, K:") for line in said)
    assert not [
        line
        for line in table_specs.table_spec(experiment.load(ROOT), "preview", "fedsmoo2023_T1").notes
        if line in said
    ]


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ("fedsmoo2023_T1", "batch size: 50 images with 200 clients"),
        ("fedsmoo2023_T1", "fedsmoo: the global perturbation s starts at zero"),
        ("fedlesam2024_T3", "seeds: two"),
        ("dfedsam2023_T1", "augmentation: random crop"),
        ("dfedsam2023_T1", "dfedsam mgs: each gossip step"),
        ("dfedsam2023_T3", "weight decay: 0.0005 for DFedSAM and DFedSAM-MGS"),
    ],
)
def test_tables_say_what_the_papers_do_not(table, line):
    notes = table_specs.table_spec(experiment.load(ROOT), "paper", table).notes
    assert any(note.startswith(f"Not stated by the paper, {line}") for note in notes)


@pytest.mark.parametrize(
    ("table", "lines"),
    [
        ("dfedsam2023_T2", ("topology", "dfedsam mgs", "client sampling", "dispfl", "fedsam")),
        ("fedlesam2024_T2", ("centralised sam", "target")),
        ("fedlesam2024_T5", ("batch size", "fedadam", "centralised sam", "target")),
        ("fedlesam2024_T9", ("batch size",)),
    ],
)
def test_what_is_not_true_of_a_table_does_not_stand_under_it(table, lines):
    """One clique a round is no ring, 200 clients are not there, nor is FedAdam."""
    notes = table_specs.table_spec(experiment.load(ROOT), "paper", table).notes
    assert any(note.startswith("Not stated by the paper") for note in notes)
    for line in lines:
        assert not [note for note in notes if note.startswith(f"Not stated by the paper, {line}:")]


def test_a_part_of_a_table_says_that_it_is_one():
    exp = experiment.load(ROOT)
    four = [name for name in exp.tables["fedsmoo2023_T1"].columns if name.startswith("cifar10-")][:4]
    for scale in ("preview", "paper"):
        first, *_ = table_specs.table_spec(exp, scale, "fedsmoo2023_T1", four).notes
        assert first.startswith("Shown: 4 of its 16 columns")
        assert not any(note.startswith("Shown:") for note in table_specs.table_spec(exp, scale, "fedsmoo2023_T1").notes)


def test_figures_say_what_the_paper_does_not_as_tables_do():
    exp = experiment.load(ROOT)
    for figure, table in (("fedsmoo2023_F7", "fedsmoo2023_T1"), ("fedsam2022_F1", "fedsam2022_T1")):
        assert figure_specs.figure_spec(exp, "preview", figure).unstated == []
        said = figure_specs.figure_spec(exp, "paper", figure).unstated
        notes = table_specs.table_spec(exp, "paper", table).notes
        assert said and {f"Not stated by the paper, {line}." for line in said} <= set(notes)
    surfaces = figure_specs.figure_spec(exp, "paper", "dfedsam2023_F2").unstated
    for line in ("rounds: 500", "augmentation: none"):
        assert any(said.startswith(line) for said in surfaces)
    graphs = figure_specs.figure_spec(exp, "paper", "dfedsam2023_F5").unstated
    assert not any("topology" in line or "dfedsam mgs" in line for line in graphs)
    for scale in ("preview", "paper"):
        tuning = figure_specs.figure_spec(exp, scale, "fedsam2022_F3").tuning
        assert any(line.startswith("Untuned, FedAvg, SCAFFOLD, FedRobust, FedCM, ") for line in tuning)
        assert not any("β = 0.5: alpha" in line for line in tuning), "a value that a point is given is not untuned"


def test_tables_say_where_neither_is_followed():
    notes = table_specs.table_spec(experiment.load(ROOT), "paper", "fedlesam2024_T2").notes
    rows = "FedLESAM, FedLESAM-D, FedLESAM-S: "
    assert [line.removeprefix(rows) for line in notes if line.startswith(rows)] == [
        "the paper is followed in direction, each client's own last model, or the server's last step (section 4.1 "
        "rules out the extra download).",
        "first is 'unperturbed', not the paper's: first participation: no perturbation, or w_old = 0 (w_old = 0 would "
        "only shrink the model).",
    ]
    average = algorithms.load("fedspeed").parameters()["average"]
    said = source_followed("average", "active_clients", average)
    assert said == "average is 'active clients', not the official code's:"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def (:", ["fedodd.py", "cannot be imported", "SyntaxError"]),
        ("import no_such_module", ["fedodd.py", "cannot be imported", "no_such_module"]),
        ("x = 1", ["fedodd.py", "defines no subclass", "'fedodd'", "underscore"]),
    ],
)
def test_a_broken_file_of_an_outside_folder_is_named(folder, text, words):
    (folder / "fedodd.py").write_text(text)
    (folder / "_helpers.py").write_text("def (:")
    (folder / "package").mkdir()
    (folder / "package/__init__.py").write_text("def (:")
    config = experiment.load(ROOT).config
    with pytest.raises(ConfigError) as caught:
        experiment.load(ROOT, {**config, "algorithm_folders": [str(folder)]}).check()
    for word in words:
        assert word in str(caught.value)


def test_a_model_in_a_folder_of_algorithms_is_named(folder):
    (folder / "perceptron.py").write_text("def build(shape, classes): ...")
    config = experiment.load(ROOT).config
    with pytest.raises(ConfigError, match=r"perceptron.py: defines no subclass .* of a model: .*`model_folders`"):
        experiment.load(ROOT, {**config, "algorithm_folders": [str(folder)]}).check()


@pytest.mark.parametrize("name", ["fed sign", "fed;touch x", "$(touch x)", "fedsіgn", "x" * 100])
def test_the_name_of_an_outside_file_is_an_id(folder, name):
    (folder / f"{name}.py").write_text(MINE)
    config = experiment.load(ROOT).config
    with pytest.raises(ConfigError) as caught:
        experiment.load(ROOT, {**config, "algorithm_folders": [str(folder)]}).check()
    for word in ("algorithm_folders", repr(name), "letters, digits"):
        assert word in str(caught.value)


def test_a_domain_split_may_have_a_topology(tmp_path):
    dealt = "scheme: domain, domain: art, clients_per_domain: 10"
    split = f"{{label: [x], {dealt}, participation: 1, sampling: all, topology: ring}}"
    exp = experiment.load(project(tmp_path, mine=split))
    about = run_specs.run(exp, "paper", "fedlesam-officehome", "mine", "dfedavg", 1).description
    assert about["topology"] == {"graph": "ring"} and about["partition"]["clients"] == 30
