"""The configuration resolved: runs, sharing, columns, printed numbers, scales, labelled variants."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import made
from flatfed import algorithms, models, plan
from flatfed.plan import at_scale, run_specs
from flatfed.plan.number import inputs
from flatfed.runs.paths import Paths
from repository import ROOT
from shipped import EXP

T1, T6 = "fedsmoo2023_T1", "fedsmoo2023_T6"
CIFAR10 = "fedsmoo-cifar10"


def run(scale, protocol, split, algorithm, exp=EXP, seed=1):
    return run_specs.run(exp, scale, protocol, split, algorithm, seed)


def test_loading_imports_no_torch():
    code = (
        "import sys; from flatfed import plan; from flatfed.plan import at_scale;"
        "exp = plan.load(sys.argv[1]);"
        "[at_scale.table(exp, at, table) for at in ('preview', 'paper') for table in exp.all_at(at).tables];"
        "print('torch' in sys.modules, 'snakemake' in sys.modules)"
    )
    environment = {"PYTHONPATH": str(ROOT / "src"), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code, ROOT], env=environment, capture_output=True, check=True)
    assert done.stdout.split() == [b"False", b"False"]


def test_preview_is_small():
    for table, columns in EXP.existing(EXP.scale, EXP.requested).tables.items():
        for requested in made.table_runs(EXP, "preview", table, columns):
            config = requested.config
            images = EXP.catalog.datasets[requested.dataset].train // config.partition.clients
            assert config.local_epochs * -(-images // config.batch_size) <= 15
            assert config.rounds <= 40 and config.model.name == "cnn_tiny"


def test_tables_share_runs():
    accuracy, rounds = ({one.path for one in made.table_runs(EXP, "paper", table)} for table in (T1, T6))
    assert (len(accuracy), len(rounds)) == (8 * 16 * 2, 8 * 8 * 2) and rounds < accuracy
    spec = at_scale.report(EXP, "preview")
    assert len(spec.runs) == len({one.path for one in spec.runs}) == 64
    assert [table.id for table in spec.tables] == [T1, T6]


def test_targets_are_those_of_the_scale():
    column = "cifar100-path10-200.rounds_to_target-t1"
    preview, paper = (made.first_number(EXP, scale, T6, column, "fedsmoo").target for scale in plan.SCALES)
    assert paper == 0.33 and 0 < preview < 1
    layout = at_scale.table(EXP, "preview", T6, [column]).columns[column]
    assert (layout.printed_target, layout.headers[-1]) == (0.33, "acc = 33%")


def test_a_run_is_fully_described():
    requested = run("paper", CIFAR10, "path3-100", "fedsmoo", seed=2)
    assert requested.path == "results/paper/runs/fedsmoo-cifar10/path3-100/fedsmoo/seed2"
    assert requested.partition == "results/paper/partitions/fedsmoo-cifar10/path3-100/seed2.npz"
    about = requested.config.as_json()
    own = {"penalty": 0.1, "regulariser": "paper", "rho": 0.1, "s": "official_code", "unpacking": "paper"}
    expected = {"rounds": 800, "batch_size": 50, "local_epochs": 5, "clip_norm": 10.0, "learning_rate_decay": 0.9995}
    expected |= {"update": {"name": "fedsmoo", "params": own}}
    expected |= {"sampling": {"scheme": "bernoulli", "fraction": 0.1, "sampler": "keyed"}}
    assert expected.items() <= about.items()
    assert about["partition"]["clients"] == 100 and "seed" not in about["partition"]
    spec = run_specs.partition_spec(EXP, "paper", CIFAR10, "path3-100", 2).as_written()
    assert spec == {"seed": 2, **about["partition"]}


def test_all_runs_of_all_tables_are_json_and_lie_apart():
    seen: dict[str, str] = {}
    for scale in plan.SCALES:
        for table in EXP.all_at(scale).tables:
            for requested in made.table_runs(EXP, scale, table):
                text = json.dumps(requested.config.as_json(), sort_keys=True, allow_nan=False)
                assert json.loads(text) == requested.config.as_json()
                assert seen.setdefault(requested.path, text) == text
    assert len(set(seen.values())) == len(seen)


def test_hyper_parameters_of_the_paper():
    def about(protocol, algorithm):
        config = run("paper", protocol, "dir0.6-100", algorithm).config.as_json()
        return config | config["update"]["params"]

    decays = {name: about(CIFAR10, name)["learning_rate_decay"] for name in EXP.tables[T1].rows}
    assert {name for name, decay in decays.items() if decay == 0.9995} == {"feddyn", "fedsmoo"}
    assert set(decays.values()) == {0.998, 0.9995}
    for protocol, algorithm, key, value in (
        ("fedsmoo-cifar100", "fedsmoo", "penalty", 0.01),
        ("fedsmoo-cifar100", "feddyn", "penalty", 0.01),
        ("fedsmoo-cifar100", "fedavg", "batch_size", 20),
        ("fedsmoo-cifar100", "fedavg", "local_epochs", 2),
        (CIFAR10, "fedadam", "server_learning_rate", 0.1),
        (CIFAR10, "mofedsam", "rho", 0.01),
        (CIFAR10, "fedavg", "model", {"name": "resnet18_gn", "options": {"stem": "imagenet", "groups": 2}}),
    ):
        assert about(protocol, algorithm)[key] == value


def test_classes_per_client_shrink_with_the_classes():
    def kept(protocol, split):
        return run_specs.partition_spec(EXP, "preview", protocol, split, 1).classes_per_client

    assert [kept("fedsmoo-cifar100", f"path{c}-100") for c in (30, 20, 10)] == [6, 4, 2]
    assert kept(CIFAR10, "path3-100") == 3
    assert EXP.catalog.settings("preview", "fedsmoo-cifar100").dataset == "digits20"


def test_variants_change_what_they_say():
    """Those of a protocol share its partitions, not its runs."""
    plain, cnn = (run("paper", protocol, "path3-100", "fedavg") for protocol in (CIFAR10, f"{CIFAR10}~cnn"))
    assert cnn.partition == plain.partition and cnn.path != plain.path and cnn.config.model.name == "cnn"
    assert (cnn.config.partition, cnn.config.update) == (plain.config.partition, plain.config.update)
    cell = made.first_number(EXP, "paper", "cifar10_cnn", "path3-100", "fedavg")
    assert (cell.paper.value, cell.compare) == (74.08, "ordering")
    variant = run("paper", CIFAR10, "path3-100", "fedsmoo~rho0.05")
    about, base = variant.config.as_json(), run("paper", CIFAR10, "path3-100", "fedsmoo").config.as_json()
    assert {key for key, value in about.items() if base[key] != value} == {"algorithm", "update"}
    assert about["update"] == {"name": "fedsmoo", "params": {**base["update"]["params"], "rho": 0.05}}
    assert variant.path.endswith("/fedsmoo~rho0.05/seed1")


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


def test_default_parameters_are_the_files(tmp_path):
    """A protocol without algorithms, targets and searches has the defaults of the algorithms."""
    served = [name for name in algorithms.names() if not algorithms.load(name).decentralised]
    served = [name for name in served if not algorithms.load(name).central]

    def change(protocol):
        for part in (protocol, protocol["preview"]):
            for key in ("algorithms", "targets", "searched", "tune", "variants"):
                part.pop(key, None)

    root = made.edited(tmp_path, f"protocols/{CIFAR10}.yaml", change)
    for kind in ("tables", "figures"):
        for path in (root / "config" / kind).glob("*.yaml"):
            path.unlink()
    exp = plan.load(root, {"scale": "paper", "tables": [], "figures": []})
    assert len(served) > 15
    rate = run("paper", CIFAR10, "dir0.6-100", "fedavg", exp).config.learning_rate
    for name in served:
        own = run("preview", CIFAR10, "dir0.6-100", name).config.update.params
        declared = algorithms.load(name).parameters()
        assert own.keys() == declared.keys()
        config = run("paper", CIFAR10, "dir0.6-100", name, exp).config
        assert config.update.params == {key: parameter.default for key, parameter in declared.items()}
        assert config.learning_rate == rate


def test_data_from_disk_change_the_source_alone(tmp_path):
    file = tmp_path / "cifar10.npz"
    file.touch()
    source = {"source": "npz", "path": str(file)}
    moved = plan.load(ROOT, {**EXP.request.as_written(), "data": {"cifar10": source}})
    specs = [run_specs.dataset_spec(exp.catalog, "cifar10").as_written() for exp in (moved, EXP)]
    assert specs[0] == {**specs[1], "source": source}
    question = ("paper", CIFAR10, "path3-100", "fedavg")
    assert run(*question, moved) == run(*question)


def test_seeds_and_the_results_folder_are_the_callers():
    more = plan.load(ROOT, {**EXP.request.as_written(), "seeds": [1, 2, 3]}, Paths("elsewhere/results"))
    before, after = (
        {one.path: one.config.as_json() for one in made.table_runs(exp, "preview", T1)} for exp in (EXP, more)
    )
    assert {path: after[f"elsewhere/{path}"] for path in before} == before
    assert len(after) == len(before) * 3 // 2
    cell = made.first_number(more, "preview", T1, "cifar10-path3-100", "fedavg")
    for path in (inputs([cell])[0], at_scale.figure(more, "preview", "fedsmoo2023_F5").inputs[0]):
        assert path.startswith("elsewhere/results/preview/partitions/")


def test_inputs_of_figures():
    curves = at_scale.figure(EXP, "preview", "fedsmoo2023_F7")
    partitions = {path for path in curves.inputs if path.endswith(".npz")}
    files = [path for path in curves.inputs if path not in partitions]
    runs = {one.path: one for one in made.table_runs(EXP, "preview", T1)}
    assert {str(Path(path).parent) for path in files} <= runs.keys(), "lines and record of each run"
    assert partitions == {runs[path].partition for path in curves.runs} and len(partitions) == 4 * 2
    assert len(files) == 4 * 8 * 2 * 2
    heat = at_scale.figure(EXP, "preview", "fedsmoo2023_F5")
    assert heat.inputs == [panel.marks[0].files[0] for panel in heat.panels]
    assert heat.inputs[1] == EXP.paths.partition("preview", "fedsmoo-cifar100", "path30-100", 1)


@pytest.mark.parametrize(
    ("name", "set_up"),
    [
        ("fedsmoo2023_T1", ", digits / digits-20, 20 to 40 rounds"),
        ("fedsmoo2023_T4", ""),  # trains nothing
        ("fedsmoo2023_F9", ", digits, 20 rounds"),
        ("fedlesam2024_F5", ", digits / digits-20"),  # of partitions
    ],
)
def test_a_preview_has_a_prefix_and_the_titles_of_paper_scale(name, set_up):
    read = at_scale.table if name in EXP.tables else at_scale.figure
    preview, paper = (read(EXP, scale, name) for scale in ("preview", "paper"))
    assert paper.title == (EXP.tables | EXP.figures)[name].document.title
    assert preview.title.startswith(f"Preview scale{set_up} (title") and preview.title.endswith(f": {paper.title}")
    if name in EXP.figures:
        assert [panel.title for panel in preview.panels] == [panel.title for panel in paper.panels]


def test_a_new_row_split_and_table_cost_a_line_each(tmp_path):
    split = {"label": ["IID"], "scheme": "iid", "balanced": True, "clients": 50, "participation": 0.2}
    made.edited(tmp_path, "splits.yaml", lambda content: content.update({"iid-50": split}))
    slow = {"label": "slow FedCM", "set": {"learning_rate": 0.01}}
    made.edited(tmp_path, "algorithms.yaml", lambda content: content.update({"fedcm~slow": slow}))
    table = {"title": "Mine", "paper": "mine", "reference": T1, "metric": "test_accuracy", "unit": "percent"}
    table |= {"rows": ["fedavg", "fedcm~slow"], "columns": [{"protocol": CIFAR10, "splits": ["iid-50", "path3-100"]}]}
    (tmp_path / "config" / "tables" / "mine.yaml").write_text(yaml.safe_dump(table))
    exp = plan.load(tmp_path)
    printed = {(cell.column, cell.row): cell.paper for cell in made.first_numbers(exp, "paper", "mine")}
    assert printed.pop(("path3-100", "fedavg")).value == 74.08 and set(printed.values()) == {None}
    about = run("paper", CIFAR10, "iid-50", "fedcm~slow", exp).config.as_json()
    partition = {"dataset": "cifar10", "classes": 10, "scheme": "iid", "clients": 50}
    assert about["partition"] == {**partition, "balanced": True, "sampler": "keyed"}
    assert about["learning_rate"] == 0.01


@pytest.mark.parametrize(
    ("data", "table", "paper", "preview"),
    [
        ("cifar10", "fedsam2022_T2", 100, 16),
        ("cifar100", "fedsam2022_T5", 100, 33),
        ("emnist", "fedsam2022_T4", 116, 33),
    ],
)
def test_a_client_is_tested_on_as_many_images_as_there_are_for_each(data, table, paper, preview):
    """All test images over all clients; labelled variants share the partition and so the number."""
    for scale, count in {"paper": paper, "preview": preview}.items():
        for protocol in (f"fedsam-{data}", f"fedsam-{data}~K5"):
            spec = run_specs.partition_spec(EXP, scale, protocol, "dir0.6-100-p20", 1)
            assert spec.client_test == count == EXP.catalog.dataset(scale, protocol).test // spec.clients
            config = run(scale, protocol, "dir0.6-100-p20", "fedsam").config
            assert config.partition.client_test == count
    plain = run_specs.partition_spec(EXP, "paper", CIFAR10, "dir0.6-100", 1)
    assert plain.client_test is None, "of protocols that do not evaluate clients"
    notes = at_scale.table(EXP, "paper", table).notes
    assert [note for note in notes if f"over {paper} test images of a client" in note]


@pytest.mark.parametrize("scale", plan.SCALES)
def test_rows_without_a_server_show_their_nodes_train_accuracy(scale):
    table, column = "dfedsam2023_T1", "cifar100-dir0.3-100-norep"
    own = {"train_accuracy": "node_train_accuracy", "generalization_error": "node_generalization_error"}
    shown = {(cell.column, cell.row): cell for cell in made.first_numbers(EXP, scale, table)}
    for metric, other in {**own, "test_accuracy": "test_accuracy"}.items():
        for row in EXP.tables[table].rows:
            server = row in ("fedavg", "fedsam")
            assert shown[f"{column}.{metric}", row].metric == (metric if server else other)
    printed = [shown[f"{column}.train_accuracy", row].paper.value for row in ("fedavg", "dfedavg")]
    assert printed == [99.99, 99.56]
    assert {tuple(one.config.evaluation.sets) for one in made.table_runs(EXP, scale, table)} == {
        ("test", "train", "nodes")
    }


def test_models_take_the_images_they_are_given():
    for name, protocol in EXP.catalog.protocols.items():
        for scale in plan.SCALES:
            model, shape = protocol.scales[scale].model, EXP.catalog.dataset(scale, name).shape
            models.check_shape(model.name, tuple(shape), models.check_options(model.name, model.options or {}))
