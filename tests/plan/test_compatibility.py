"""Which algorithm trains on which split: topologies, centralised training, and algorithms from outside our tree."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from flatfed import algorithms, plan
from flatfed.engine import versions
from flatfed.errors import ConfigError
from flatfed.plan import run_specs
from flatfed.runs import identity
from repository import ROOT

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
    exp = plan.load(root)
    wide = run_specs.run(exp, "paper", PROTOCOL, "mine", "dfedsam", 1).config.as_json()
    assert wide["topology"] == {"graph": "clique", "neighbours": 10} and wide["partition"]["clients"] == 100
    small = run_specs.run(exp, "preview", PROTOCOL, "mine", "dfedsam", 1).config.as_json()
    assert small["topology"] == {"graph": "clique", "neighbours": 3} and small["partition"]["clients"] == 30
    assert "topology" not in run_specs.run(exp, "paper", PROTOCOL, "dir0.6-100", "fedavg", 1).config.as_json()


def test_algorithm_and_split_must_fit(tmp_path):
    root = project(
        tmp_path,
        mine=SPLIT % "clique, neighbours: 30",
        one="{label: [x], scheme: central, clients: 1, participation: 1}",
    )
    exp = plan.load(root)
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
    assert run_specs.run(exp, "paper", PROTOCOL, "one", "centralised_sgd", 1).config.update.name == "centralised_sgd"


def test_a_round_of_a_central_split_has_the_steps_of_a_federated_one(tmp_path):
    one = "{label: [x], scheme: central, clients: 1, participation: 1, steps_of: %s}"
    exp = plan.load(project(tmp_path, one=one % "dir0.1-100", other=one % "dir0.1-200"))
    # 10 of 100 clients with 500 images in batches of 50, five epochs; 10 of 200 clients with 250 images.
    assert run_specs.run(exp, "paper", PROTOCOL, "one", "centralised_sgd", 1).config.local_steps == 10 * 5 * 10
    assert run_specs.run(exp, "paper", PROTOCOL, "other", "centralised_sam", 1).config.local_steps == 10 * 5 * 5
    # CIFAR-100, 200 clients: 250 images in batches of 20 are 13, the last one smaller.
    cifar100 = run_specs.run(exp, "paper", "fedsmoo-cifar100", "other", "centralised_sgd", 1).config.as_json()
    assert cifar100["local_steps"] == 10 * 2 * 13


def test_a_central_split_can_have_the_images_of_a_federated_one(tmp_path):
    """At both scales the deal of the federated clients stands in its own, and decides the run."""
    one = "{label: [x], scheme: central, clients: 1, participation: 1, steps_of: dir0.1-100%s}"
    exp = plan.load(project(tmp_path, one=one % ", images_of: dir0.1-100", other=one % ""))
    for scale in ("paper", "preview"):
        mine, plain = (run_specs.partition_spec(exp, scale, PROTOCOL, split, 1) for split in ("one", "other"))
        theirs = run_specs.partition_spec(exp, scale, PROTOCOL, "dir0.1-100", 1)
        assert plain == mine.model_copy(update={"images_of": None})
        assert mine.pooled == theirs.as_written() and (mine.scheme, mine.clients) == ("central", 1)
        one, other = (
            run_specs.run(exp, scale, PROTOCOL, split, "centralised_sgd", 1).config for split in ("one", "other")
        )
        (told,) = identity.deciding_differences(other.changed(split="one"), one)
        assert told.startswith("partition.images_of is null, here ")


MINE = '''from flatfed.algorithms._parameters import Number
from flatfed.algorithms.fedavg import FedAvg


class FedSign(FedAvg):
    """The server takes the signs of the mean update."""

    size = Number(0.01, "step of the server", minimum=0)

    def aggregate(self, server, uploads, ctx):
        """w <- w + size sign(mean)."""
        step = (uploads["w"].mean(dim=0, keepdim=True) - server["w"]).sign_()
        return {"w": server["w"].add(step, alpha=self.size)}
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
    config = plan.load(ROOT).request.as_written()
    exp = plan.load(ROOT, {**config, "algorithm_folders": [str(folder)]})
    run = run_specs.run(exp, "preview", PROTOCOL, "dir0.6-100", "fedsign", 1)
    assert run.config.update.as_json() == {"name": "fedsign", "params": {"size": 0.01, "server_learning_rate": 1.0}}
    assert exp.catalog.algorithms["fedsign"].label == "FedSign"
    before = versions.of_run(run.config)
    (folder / "fedsign.py").write_text(MINE.replace("alpha=self.size", "alpha=2 * self.size"))
    assert versions.of_run(run.config) == before, "as imported"
    algorithms.FILES.digests.clear()  # another process
    changed = versions.of_run(run.config)
    assert {key for key in before if changed[key] != before[key]} == {"algorithm"}


def test_folders_that_cannot_be_are_refused(folder, tmp_path):
    with pytest.raises(ConfigError, match="algorithm_folders: 'nowhere' is not a folder"):
        algorithms.look_in(["nowhere"], "config.yaml: algorithm_folders")
    (folder / "fedsign.py").rename(folder / "fedavg.py")
    with pytest.raises(ConfigError, match=r"fedavg.py: flatfed.algorithms has 'fedavg' already"):
        algorithms.look_in([folder], "config.yaml: algorithm_folders")


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
    config = plan.load(ROOT).request.as_written()
    with pytest.raises(ConfigError) as caught:
        plan.load(ROOT, {**config, "algorithm_folders": [str(folder)]}).check()
    for word in words:
        assert word in str(caught.value)


def test_a_model_in_a_folder_of_algorithms_is_named(folder):
    (folder / "perceptron.py").write_text("def build(shape, classes): ...")
    config = plan.load(ROOT).request.as_written()
    with pytest.raises(ConfigError, match=r"perceptron.py: defines no subclass .* of a model: .*`model_folders`"):
        plan.load(ROOT, {**config, "algorithm_folders": [str(folder)]}).check()


@pytest.mark.parametrize("name", ["fed sign", "fed;touch x", "$(touch x)", "fedsіgn", "x" * 100])
def test_the_name_of_an_outside_file_is_an_id(folder, name):
    (folder / f"{name}.py").write_text(MINE)
    config = plan.load(ROOT).request.as_written()
    with pytest.raises(ConfigError) as caught:
        plan.load(ROOT, {**config, "algorithm_folders": [str(folder)]}).check()
    for word in ("algorithm_folders", repr(name), "letters, digits"):
        assert word in str(caught.value)


def test_a_domain_split_may_have_a_topology(tmp_path):
    dealt = "scheme: domain, domain: art, clients_per_domain: 10"
    split = f"{{label: [x], {dealt}, participation: 1, sampling: all, topology: ring}}"
    exp = plan.load(project(tmp_path, mine=split))
    about = run_specs.run(exp, "paper", "fedlesam-officehome", "mine", "dfedavg", 1).config.as_json()
    assert about["topology"] == {"graph": "ring"} and about["partition"]["clients"] == 30
