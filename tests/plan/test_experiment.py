"""The configuration resolved: runs, sharing, columns, printed numbers, scales, labelled variants."""

from __future__ import annotations

import json
import shutil
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

T1, T6 = "fedsmoo2023_T1", "fedsmoo2023_T6"
CIFAR10 = "fedsmoo-cifar10"


@pytest.fixture(scope="module")
def exp() -> plan.Experiment:
    return plan.load(ROOT)


def test_loading_imports_no_torch() -> None:
    code = (
        "import sys; from flatfed import plan; from flatfed.plan import at_scale;"
        "found = plan.load(sys.argv[1]);"
        "every = [(at, table) for at in ('preview', 'paper') for table in found.all_at(at).tables];"
        "[at_scale.table(found, *one) for one in every];"
        "print('torch' in sys.modules, 'snakemake' in sys.modules)"
    )
    environment = {"PYTHONPATH": str(ROOT / "src"), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", code, ROOT], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False"]


def test_preview_is_small(exp: plan.Experiment) -> None:
    for table, columns in exp.existing(exp.scale, exp.requested).tables.items():
        for run in made.table_runs(exp, "preview", table, columns):
            description, data = run.config.as_json(), exp.catalog.datasets[run.dataset]
            images = data.train // description["partition"]["clients"]
            steps = description["local_epochs"] * -(-images // description["batch_size"])
            assert description["rounds"] <= 40
            assert steps <= 15
            assert description["model"]["name"] == "cnn_tiny"


def test_tables_share_runs(exp: plan.Experiment) -> None:
    accuracy = {run.path for run in made.table_runs(exp, "paper", T1)}
    rounds = {run.path for run in made.table_runs(exp, "paper", T6)}
    assert len(accuracy) == 8 * 16 * 2
    assert len(rounds) == 8 * 8 * 2
    assert rounds < accuracy


def test_every_printed_number_finds_its_cell(exp: plan.Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    for table in (T1, T6):
        cells = made.first_numbers(exp, "paper", table)
        assert len(cells) == 128
        used = [id(cell.paper) for cell in cells]
        assert None not in [cell.paper for cell in cells]
        assert len(set(used)) == len(exp.references[table].numbers) == 128


@pytest.mark.parametrize(
    ("table", "column", "row", "value", "spread"),
    [
        (T1, "cifar10-path3-100", "fedavg", 74.08, 0.22),
        (T1, "cifar100-path10-100", "fedadam", 32.58, 0.22),
        (T1, "cifar10-dir0.6-200", "fedavg", 75.90, 0.21),
        (T6, "cifar10-dir0.1-100.rounds_to_target-t1", "fedavg", 259, None),
        (T6, "cifar100-path10-100.rounds_to_target-t2", "fedavg", 732, None),
        (T6, "cifar100-dir0.1-200.rounds_to_target-t1", "fedavg", 438, None),
        (T6, "cifar10-dir0.1-100.rounds_to_target-t2", "fedavg", None, None),
    ],
)
def test_printed_numbers(exp, table: str, column: str, row: str, value: float | None, spread: float | None) -> None:
    for scale in plan.SCALES:
        paper = made.first_number(exp, scale, table, column, row).paper
        assert (paper.value, paper.spread) == (value, spread)


def test_targets_are_those_of_the_scale(exp: plan.Experiment) -> None:
    column = "cifar100-path10-200.rounds_to_target-t1"
    preview, paper = (made.first_number(exp, scale, T6, column, "fedsmoo").target for scale in plan.SCALES)
    assert paper == 0.33
    assert 0 < preview < 1
    layout = at_scale.table(exp, "preview", T6, [column])
    assert layout.columns[column].printed_target == 0.33
    assert layout.columns[column].headers == ("CIFAR-100", "Pathological, c = 10", "acc = 33%")


def test_a_run_is_fully_described(exp: plan.Experiment) -> None:
    run = run_specs.run(exp, "paper", CIFAR10, "path3-100", "fedsmoo", 2)
    assert run.path == "results/paper/runs/fedsmoo-cifar10/path3-100/fedsmoo/seed2"
    assert run.partition == "results/paper/partitions/fedsmoo-cifar10/path3-100/seed2.npz"
    description = run.config.as_json()
    assert json.loads(json.dumps(description)) == description
    own = {"penalty": 0.1, "regulariser": "paper", "rho": 0.1, "s": "official_code", "unpacking": "paper"}
    assert description["update"] == {"name": "fedsmoo", "params": own}
    assert description["learning_rate_decay"] == 0.9995
    assert description["sampling"] == {"scheme": "bernoulli", "fraction": 0.1, "sampler": "keyed"}
    assert description["partition"]["clients"] == 100
    assert "seed" not in description["partition"]
    assert {"rounds": 800, "batch_size": 50, "local_epochs": 5, "clip_norm": 10.0}.items() <= description.items()
    spec = run_specs.partition_spec(exp, "paper", CIFAR10, "path3-100", 2).as_written()
    assert spec == {"seed": 2, **description["partition"]}


def test_all_runs_of_all_tables_are_json_and_lie_apart(exp: plan.Experiment) -> None:
    seen: dict[str, str] = {}
    for scale in plan.SCALES:
        for table in exp.all_at(scale).tables:
            for run in made.table_runs(exp, scale, table):
                text = json.dumps(run.config.as_json(), sort_keys=True, allow_nan=False)
                assert json.loads(text) == run.config.as_json()
                assert seen.setdefault(run.path, text) == text
    assert len(set(seen.values())) == len(seen)


def test_hyper_parameters_of_the_paper(exp: plan.Experiment) -> None:
    def description(protocol: str, algorithm: str) -> dict:
        return run_specs.run(exp, "paper", protocol, "dir0.6-100", algorithm, 1).config.as_json()

    decays = {name: description(CIFAR10, name)["learning_rate_decay"] for name in exp.tables[T1].rows}
    assert {name for name, decay in decays.items() if decay == 0.9995} == {"feddyn", "fedsmoo"}
    assert set(decays.values()) == {0.998, 0.9995}
    assert description("fedsmoo-cifar100", "fedsmoo")["update"]["params"]["penalty"] == 0.01
    assert description("fedsmoo-cifar100", "feddyn")["update"]["params"]["penalty"] == 0.01
    assert description("fedsmoo-cifar100", "fedavg")["batch_size"] == 20
    assert description("fedsmoo-cifar100", "fedavg")["local_epochs"] == 2
    assert description(CIFAR10, "fedadam")["update"]["params"]["server_learning_rate"] == 0.1
    assert description(CIFAR10, "mofedsam")["update"]["params"]["rho"] == 0.01
    assert description(CIFAR10, "fedavg")["model"]["options"] == {"stem": "imagenet", "groups": 2}


def test_classes_per_client_shrink_with_the_classes(exp: plan.Experiment) -> None:
    kept = [
        run_specs.partition_spec(exp, "preview", "fedsmoo-cifar100", f"path{c}-100", 1).classes_per_client
        for c in (30, 20, 10)
    ]
    assert kept == [6, 4, 2]
    assert run_specs.partition_spec(exp, "preview", CIFAR10, "path3-100", 1).classes_per_client == 3
    assert exp.catalog.settings("preview", "fedsmoo-cifar100").dataset == "digits20"


def test_a_protocols_variant_shares_partitions_not_runs(exp: plan.Experiment) -> None:
    variant = run_specs.run(exp, "paper", f"{CIFAR10}~cnn", "path3-100", "fedavg", 1)
    plain = run_specs.run(exp, "paper", CIFAR10, "path3-100", "fedavg", 1)
    assert variant.partition == plain.partition
    assert variant.path != plain.path
    assert variant.config.model.name == "cnn"
    assert variant.config.partition == plain.config.partition
    assert variant.config.update == plain.config.update
    cell = made.first_number(exp, "paper", "cifar10_cnn", "path3-100", "fedavg")
    assert (cell.paper.value, cell.compare) == (74.08, "ordering")


def test_that_bfloat16_may_be_imitated_is_said_of_its_runs_alone(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "config", tmp_path / "config")
    file = tmp_path / "config/protocols/fedsmoo-cifar10.yaml"
    with open(file, "a", encoding="utf-8") as text:
        text.write("\nemulate_bfloat16: true\n")
    found = plan.load(tmp_path)
    for protocol, said in ((CIFAR10, None), (f"{CIFAR10}~bfloat16", True)):
        assert (
            run_specs.run(found, "paper", protocol, "path3-100", "fedavg", 1).config.as_json().get("emulate_bfloat16")
            is said
        )


def test_keys_for_a_lack_of_memory_are_in_the_settings_of_their_scale_alone(tmp_path: Path) -> None:
    """Absent keys stay absent, so digests of earlier runs stay."""
    shutil.copytree(ROOT / "config", tmp_path / "config")
    path = tmp_path / f"config/protocols/{CIFAR10}.yaml"
    protocol = yaml.safe_load(path.read_text())
    protocol["preview"].update(rows=5, state="file")
    path.write_text(yaml.safe_dump(protocol, sort_keys=False))
    found = plan.load(tmp_path)
    settings = [run_specs.run(found, scale, CIFAR10, "path3-100", "fedavg", 1).config for scale in ("preview", "paper")]
    assert [(config.rows, config.state) for config in settings] == [(5, "file"), (None, None)]
    assert not {"rows", "state"} & settings[1].as_json().keys() and not {"rows", "state"} & settings[0].deciding.keys()


def test_an_algorithms_variant_changes_what_it_says(exp: plan.Experiment) -> None:
    variant = run_specs.run(exp, "paper", CIFAR10, "path3-100", "fedsmoo~rho0.05", 1)
    plain = run_specs.run(exp, "paper", CIFAR10, "path3-100", "fedsmoo", 1).config.as_json()
    changed = {key for key, value in variant.config.as_json().items() if plain[key] != value}
    assert changed == {"algorithm", "update"}
    assert variant.config.update.as_json() == {"name": "fedsmoo", "params": {**plain["update"]["params"], "rho": 0.05}}
    assert variant.path.endswith("/fedsmoo~rho0.05/seed1")


def test_default_parameters_are_the_files(exp: plan.Experiment) -> None:
    served = [
        name
        for name in algorithms.names()
        if not (algorithms.load(name).decentralised or algorithms.load(name).central)
    ]
    assert len(served) > 15
    for name in served:
        params = run_specs.run(exp, "preview", CIFAR10, "dir0.6-100", name, 1).config.update.params
        assert params.keys() == algorithms.load(name).parameters().keys()


def test_data_from_disk_change_the_source_alone(tmp_path: Path, exp: plan.Experiment) -> None:
    file = tmp_path / "cifar10.npz"
    file.touch()
    source = {"source": "npz", "path": str(file)}
    moved = plan.load(ROOT, {**exp.request.as_written(), "data": {"cifar10": source}})
    specs = [run_specs.dataset_spec(found.catalog, "cifar10").as_written() for found in (moved, exp)]
    assert specs[0] == {**specs[1], "source": source}
    question = ("paper", CIFAR10, "path3-100", "fedavg", 1)
    assert run_specs.run(moved, *question) == run_specs.run(exp, *question)


def test_seeds_of_the_configuration_add_runs(exp: plan.Experiment) -> None:
    more = plan.load(ROOT, {**exp.request.as_written(), "seeds": [1, 2, 3]})
    before = {run.path: run.config.as_json() for run in made.table_runs(exp, "preview", T1)}
    after = {run.path: run.config.as_json() for run in made.table_runs(more, "preview", T1)}
    assert {path: after[path] for path in before} == before
    assert len(after) == len(before) * 3 // 2


def test_results_folder_is_the_callers() -> None:
    other = plan.load(ROOT, paths=Paths("elsewhere/results"))
    cell = made.first_number(other, "preview", T1, "cifar10-path3-100", "fedavg")
    assert inputs([cell])[0].startswith("elsewhere/results/preview/partitions/")
    assert (
        at_scale.figure(other, "preview", "fedsmoo2023_F5")
        .inputs[0]
        .startswith("elsewhere/results/preview/partitions/")
    )


def test_figures(exp: plan.Experiment) -> None:
    curves = at_scale.figure(exp, "preview", "fedsmoo2023_F7")
    assert [panel.title for panel in curves.panels] == [
        *("Dirichlet, u = 0.6", "Dirichlet, u = 0.1"),
        *("Pathological, c = 6", "Pathological, c = 3"),
    ]
    dealt = [path for path in curves.inputs if path.endswith(".npz")]
    of_runs = [path for path in curves.inputs if path not in dealt]
    runs = {run.path: run for run in made.table_runs(exp, "preview", T1)}
    assert {str(Path(path).parent) for path in of_runs} <= runs.keys(), "lines and record of each run"
    assert {*dealt} == {runs[path].partition for path in curves.runs} and len(dealt) == 4 * 2, "what they train on"
    assert len(of_runs) == 4 * 8 * 2 * 2
    heat = at_scale.figure(exp, "preview", "fedsmoo2023_F5")
    assert heat.inputs == [panel.marks[0].files[0] for panel in heat.panels]
    assert heat.inputs[1] == exp.paths.partition("preview", "fedsmoo-cifar100", "path30-100", 1)


@pytest.mark.parametrize(
    ("name", "set_up"),
    [
        ("fedsmoo2023_T1", ", digits / digits-20, 20 to 40 rounds"),
        ("fedsmoo2023_T4", ""),  # trains nothing
        ("fedsmoo2023_F9", ", digits, 20 rounds"),
        ("fedlesam2024_F5", ", digits / digits-20"),  # of partitions
    ],
)
def test_a_preview_has_a_prefix_and_the_titles_of_paper_scale(exp: plan.Experiment, name, set_up) -> None:
    """Numbers in titles were replaced by patterns: "5% of 200 clients" became "5% of 60 clients", which was false."""
    of_table = name in exp.tables
    read = at_scale.table if of_table else at_scale.figure
    preview, paper = (read(exp, scale, name) for scale in ("preview", "paper"))
    declared = (exp.tables if of_table else exp.figures)[name].document.title
    assert paper.title == declared
    assert preview.title == f"Preview scale{set_up} (title and headings as at paper scale): {declared}"
    if not of_table:
        assert [panel.title for panel in preview.panels] == [panel.title for panel in exp.figures[name].panels]


def test_report_names_every_run_once(exp: plan.Experiment) -> None:
    spec = at_scale.report(exp, "preview")
    assert len(spec.runs) == len({run.path for run in spec.runs}) == 64
    assert [table.id for table in spec.tables] == [T1, T6]


def test_a_new_row_split_and_table_cost_a_line_each(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "config", tmp_path / "config")
    with open(tmp_path / "config" / "splits.yaml", "a") as file:
        file.write("iid-50: {label: [IID], scheme: iid, balanced: true, clients: 50, participation: 0.2}\n")
    with open(tmp_path / "config" / "algorithms.yaml", "a") as file:
        file.write("fedcm~slow: {label: slow FedCM, set: {learning_rate: 0.01}}\n")
    table = {
        "title": "Mine",
        "paper": "mine",
        "reference": T1,
        "metric": "test_accuracy",
        "unit": "percent",
        "rows": ["fedavg", "fedcm~slow"],
        "columns": [{"protocol": CIFAR10, "splits": ["iid-50", "path3-100"]}],
    }
    (tmp_path / "config" / "tables" / "mine.yaml").write_text(yaml.safe_dump(table))
    found = plan.load(tmp_path)
    printed = {(c.column, c.row): c.paper for c in made.first_numbers(found, "paper", "mine")}
    assert printed["path3-100", "fedavg"].value == 74.08
    assert printed["path3-100", "fedcm~slow"] is None
    assert printed["iid-50", "fedavg"] is None
    slow = run_specs.run(found, "paper", CIFAR10, "iid-50", "fedcm~slow", 1).config.as_json()
    assert slow["learning_rate"] == 0.01
    assert slow["partition"] == {
        **{"dataset": "cifar10", "classes": 10, "scheme": "iid", "clients": 50},
        **{"balanced": True, "sampler": "keyed"},
    }


@pytest.mark.parametrize(
    ("data", "paper", "preview"), [("cifar10", 100, 16), ("cifar100", 100, 33), ("emnist", 116, 33)]
)
def test_a_client_is_tested_on_as_many_images_as_there_are_for_each(exp, data, paper, preview) -> None:
    """All test images over all clients; labelled variants share the partition and so the number."""
    for scale, count in {"paper": paper, "preview": preview}.items():
        for protocol in (f"fedsam-{data}", f"fedsam-{data}~K5"):
            spec = run_specs.partition_spec(exp, scale, protocol, "dir0.6-100-p20", 1)
            images = exp.catalog.datasets[exp.catalog.settings(scale, protocol).dataset].test
            assert spec.client_test == count == images // spec.clients
            run = run_specs.run(exp, scale, protocol, "dir0.6-100-p20", "fedsam", 1)
            assert run.config.partition.client_test == count
    plain = run_specs.partition_spec(exp, "paper", CIFAR10, "dir0.6-100", 1)
    assert plain.client_test is None, "of protocols that do not look at clients by themselves"
    table = {"cifar10": "fedsam2022_T2", "cifar100": "fedsam2022_T5", "emnist": "fedsam2022_T4"}[data]
    notes = at_scale.table(exp, "paper", table).notes
    (said,) = [note for note in notes if note.startswith("Not stated by the paper, deviation over clients")]
    assert f"over {paper} test images of a client" in said


@pytest.mark.parametrize("scale", plan.SCALES)
def test_rows_without_a_server_show_their_nodes_train_accuracy(exp, scale) -> None:
    table, column = "dfedsam2023_T1", "cifar100-dir0.3-100-norep"
    own = {"train_accuracy": "node_train_accuracy", "generalization_error": "node_generalization_error"}
    shown = {(c.column, c.row): c for c in made.first_numbers(exp, scale, table)}
    for metric, other in {**own, "test_accuracy": "test_accuracy"}.items():
        for row in exp.tables[table].rows:
            server = row in ("fedavg", "fedsam")
            assert shown[f"{column}.{metric}", row].metric == (metric if server else other)
    printed = {row: shown[f"{column}.train_accuracy", row].paper.value for row in ("fedavg", "dfedavg")}
    assert printed == {"fedavg": 99.99, "dfedavg": 99.56}
    for run in made.table_runs(exp, scale, table):
        assert run.config.evaluation.sets == ["test", "train", "nodes"]


def test_models_take_the_images_they_are_given(exp: plan.Experiment) -> None:
    for protocol in exp.catalog.protocols:
        for scale in plan.SCALES:
            model = exp.catalog.protocols[protocol].scales[scale].model
            options = models.check_options(model.name, model.options or {})
            shape = exp.catalog.datasets[exp.catalog.settings(scale, protocol).dataset].shape
            models.check_shape(model.name, tuple(shape), options)
