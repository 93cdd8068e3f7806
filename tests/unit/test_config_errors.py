"""Every mistake in the configuration ends with one message: file, key, value, what is allowed, the nearest match."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml

from flatfed import algorithms, experiment, schemas
from flatfed.data import digits
from flatfed.errors import ConfigError
from flatfed.experiment import cell_specs, figure_specs, run_specs

ROOT = Path(__file__).parents[2]
CIFAR10 = "protocols/fedsmoo-cifar10.yaml"
T1 = "tables/fedsmoo2023_T1.yaml"
F7 = "figures/fedsmoo2023_F7.yaml"
F5 = "figures/fedsmoo2023_F5.yaml"
SAM = "protocols/fedsam-cifar10.yaml"
PEERS = "tables/dfedsam2023_T1.yaml"
ORDER = str(ROOT / "results/published/orders/cifar10.npz")

# A line a mistake reads best; this table is as wide as it is.
# ruff: noqa: E501

#: (file under config/, text, what replaces it, fragments of the message); an empty text appends.
# fmt: off
MISTAKES = {
    "table key misspelt": (T1, "metric:", "metrik:", [T1, "'metrik'", "did you mean 'metric'?"]),
    "unknown row": (T1, "feddyn,", "fedyn,", [T1, "rows[4]", "'fedyn'", "did you mean 'feddyn'?"]),
    "row twice": (T1, "[fedavg,", "[fedavg, fedavg,", [T1, "rows", '"fedavg" is given twice']),
    "unknown split": (T1, "dir0.6-100", "dir0.7-100", [T1, "columns[0]", "'dir0.7-100'", "did you mean 'dir0.6-100'?"]),
    "unknown protocol": (T1, "fedsmoo-cifar100", "fedsmo-cifar100", [T1, "columns[1]", "did you mean 'fedsmoo-cifar100'?"]),
    "unknown variant": (T1, "fedsmoo-cifar100", "fedsmoo-cifar10~cn", [T1, "did you mean 'fedsmoo-cifar10~cnn'?"]),
    "unknown metric": (T1, "test_accuracy", "test_acuracy", [T1, "did you mean 'test_accuracy'?"]),
    "unknown unit": (T1, "percent", "percents", [T1, "unit", "did you mean 'percent'?"]),
    "accuracy that is not evaluated": (CIFAR10, "evaluation: {every: 1,", "accuracy: client_test_accuracy\nevaluation: {every: 1,", [CIFAR10, "accuracy: client_test_accuracy", "needs 'clients' among evaluation.sets", "test"]),
    "unknown accuracy": (SAM, "accuracy: client_test_accuracy", "accuracy: client_test_acuracy", [SAM, "accuracy", "did you mean 'client_test_accuracy'?"]),
    "open line of an unknown row": ("protocols/dfedsam-cifar10.yaml", "rows: [dfedsam_mgs]", "rows: [dfedsam_mg]", ["unstated.dfedsam_mgs.rows", "did you mean 'dfedsam_mgs'?"]),
    "open line of an unknown split": ("protocols/dfedsam-cifar10.yaml", '["*-clique"]', '["*-cliqe"]', ["unstated.topology.splits", "'*-cliqe'"]),
    "unknown reference": (T1, "reference: fedsmoo2023_T1", "reference: fedsmoo2022_T1", [T1, "reference", "did you mean 'fedsmoo2023_T1'?"]),
    "no reference, no reason": (T1, "reference: fedsmoo2023_T1", "reference: none", [T1, "'reason' is missing"]),
    "column twice": (T1, "path6-200", "path6-100", [T1, "columns[2]", "'cifar10-path6-100' is there twice"]),
    "targets missing": (T1, "test_accuracy", "rounds_to_target", [T1, "needs `targets:`"]),
    "unknown target": ("tables/fedsmoo2023_T6.yaml", "t2]", "t3]", ["fedsmoo2023_T6.yaml", "'t3'", "known: t1, t2"]),
    "c above the classes": (T1, "path3-100", "path20-100", ["path20-100.classes_per_client: 20", "at most 10", "'cifar10'"]),
    "wrong type": (CIFAR10, "rounds: 800", "rounds: many", [CIFAR10, "rounds", '"many" is a text', "a whole number is wanted"]),
    "not whole": (CIFAR10, "rounds: 800", "rounds: 800.0", [CIFAR10, "rounds", "800.0", "a whole number is wanted"]),
    "out of range": (CIFAR10, "weight_decay: 0.001", "weight_decay: -1", [CIFAR10, "weight_decay", "-1", "at least 0"]),
    "not finite": (CIFAR10, "clip_norm: 10.0", "clip_norm: .inf", [CIFAR10, "clip_norm", "inf", "finite"]),
    "not a number": (CIFAR10, "rho: 0.01,", "rho: .nan,", [CIFAR10, "algorithms.fedsam.rho", "nan"]),
    "key twice": (CIFAR10, "rounds: 800", "rounds: 800\nrounds: 900", [CIFAR10, "'rounds' is given twice", "first in line"]),
    "not YAML": (CIFAR10, "model: {", "model: {{", [CIFAR10, "not YAML", "line"]),
    "missing key": (CIFAR10, "batch_size: 50", "#", [CIFAR10, "'batch_size' is missing", "mini-batch"]),
    "unknown executor": (CIFAR10, "{cpu: sequential, cuda: stacked}", "{cpu: sequential, cuda: auto}", [CIFAR10, "executor.cuda: unknown value 'auto'", "known: graph, sequential, stacked"]),
    "unknown dataset": (CIFAR10, "dataset: cifar10\n", "dataset: cifar\n", [CIFAR10, "dataset", "did you mean 'cifar10'?"]),
    "unknown preview dataset": (CIFAR10, "dataset: digits", "dataset: digit", [CIFAR10, "preview.dataset", "did you mean 'digits'?"]),
    "unknown model": (CIFAR10, "{name: resnet18_gn", "{name: resnet18_bn", [CIFAR10, "model", "did you mean 'resnet18_gn'?"]),
    "unknown option": (CIFAR10, "groups: 2", "group: 2", [CIFAR10, "model", "did you mean 'groups'?"]),
    "bad option": (CIFAR10, "stem: imagenet", "stem: imagnet", [CIFAR10, "stem", "did you mean 'imagenet'?"]),
    "images too small": ("datasets.yaml", "shape: [1, 8, 8]", "shape: [1, 2, 2]", ["config/protocols", "preview.model", "cnn_tiny", "at least", "2 x 2"]),
    "images too small for an option": (CIFAR10, "model: {name: cnn_tiny}", "model: {name: cnn, options: {pooling: each}}", [CIFAR10, "preview.model", "at least 10 x 10", "8 x 8"]),
    "official deal that is none": ("splits.yaml", "alpha: 0.6, clients: 100,", "alpha: 0.6, replacement: false, sampler: official, clients: 100,", ["dir0.6-100.replacement: false is not allowed", "sampler official"]),
    "unknown algorithm": (CIFAR10, "  fedcm: {", "  fedcn: {", [CIFAR10, "algorithms", "did you mean 'fedcm'?"]),
    "unknown parameter": (CIFAR10, "{rho: 0.01,", "{roh: 0.01,", [CIFAR10, "algorithms.fedsam", "did you mean 'rho'?"]),
    "parameter of another": (CIFAR10, "scaffold: {", "scaffold: {rho: 1, ", [CIFAR10, "algorithms.scaffold", "'rho'"]),
    "parameter out of range": (CIFAR10, "tau: 0.01", "tau: 0", [CIFAR10, "algorithms.fedadam.tau", "greater than 0"]),
    "parameter of wrong type": (CIFAR10, "tau: 0.01", "tau: yes", [CIFAR10, "algorithms.fedadam.tau", "'yes'"]),
    "bad choice": (CIFAR10, "s: official_code", "s: official", [CIFAR10, "fedsmoo.s", "did you mean 'official_code'?"]),
    "algorithm's decay": (CIFAR10, "learning_rate_decay: 0.9995} # B.4: b", "learning_rate_decay: 2} # B", ["feddyn.learning_rate_decay", "at most 1"]),
    "target in percent": (CIFAR10, "t2: 0.74", "t2: 74", [CIFAR10, "targets.*.t2", "74", "at most 1"]),
    "targets of no split": (CIFAR10, '"*": {t1: 0.68', '"dri*": {t1: 0.68', [CIFAR10, "targets", "'dri*'"]),
    "variant with a dataset": (CIFAR10, "  cnn:\n", "  cnn:\n    dataset: digits\n", [CIFAR10, "variants.cnn", "'dataset'"]),
    "variant deals otherwise": (CIFAR10, "  cnn:\n", "  cnn:\n    preview: {clients_times: 1}\n", [CIFAR10, "variants.cnn.preview", "'clients_times'"]),
    "bad label": (CIFAR10, "  cnn:\n", "  c/n:\n", [CIFAR10, "variants", '"c/n" is not allowed', "letters, digits"]),
    "participation of 0": ("splits.yaml", "participation: 0.1}", "participation: 0}", ["splits.yaml", "dir0.6-100.participation", "greater than 0"]),
    "participation above 1": ("splits.yaml", "participation: 0.1}", "participation: 10}", ["splits.yaml", "dir0.6-100.participation", "at most 1"]),
    "no clients": ("splits.yaml", "clients: 100", "clients: 0", ["splits.yaml", "dir0.6-100.clients", "at least 1"]),
    "more clients than images": ("splits.yaml", "clients: 100", "clients: 60000", ["dir0.6-100.clients", "60000", "at most 50000", "'cifar10'"]),
    "more preview clients than images": ("splits.yaml", "clients: 100", "clients: 5000", ["dir0.6-100.clients: 5000", "1500 clients", "at most 1297", "'digits'"]),
    "split id twice": ("splits.yaml", "dir0.1-100:", "dir0.6-100:", ["splits.yaml", "'dir0.6-100' is given twice"]),
    "same split, two ids": ("splits.yaml", "", "\nmine: {label: [M], scheme: dirichlet, alpha: 0.60, replacement: true, clients: 100, participation: 0.1}\n", ["splits.yaml: mine", "'dir0.6-100' under another id"]),
    "scheme's key missing": ("splits.yaml", " alpha: 0.6,", "", ["dir0.6-100", "'alpha' is missing"]),
    "another scheme's key": ("splits.yaml", "alpha: 0.6,", "alpha: 0.6, classes_per_client: 2,", ["dir0.6-100.classes_per_client", "scheme pathological"]),
    "unknown scheme": ("splits.yaml", "scheme: dirichlet", "scheme: dirichlett", ["dir0.6-100.scheme", "did you mean 'dirichlet'?"]),
    "id with a slash": ("splits.yaml", "dir0.6-100:", "dir/0.6:", ["splits.yaml", '"dir/0.6" is not allowed', "letters, digits"]),
    "id for the shell": ("splits.yaml", "dir0.6-100:", '"a;rm":', ["splits.yaml", '"a;rm" is not allowed']),
    "id of dots": ("splits.yaml", "dir0.6-100:", '"..":', ["splits.yaml", '".." is not allowed']),
    "split with a label": ("splits.yaml", "dir0.6-100:", "dir0.6~x:", ["splits.yaml", '"dir0.6~x" is not allowed']),
    "algorithm without a file": ("algorithms.yaml", "", "\nfedsam2: {label: X}\n", ["algorithms.yaml", "did you mean 'fedsam'?"]),
    "two labels": ("algorithms.yaml", "", "\nfedsam~a~b: {label: X, set: {rho: 1}}\n", ["algorithms.yaml", '"fedsam~a~b" is not allowed', "at most one ~"]),
    "variant of nothing": ("algorithms.yaml", "{rho: 0.05}", "{roh: 0.05}", ["fedsmoo~rho0.05", "did you mean 'rho'?"]),
    "variant without change": ("algorithms.yaml", ", set: {rho: 0.05}", "", ["fedsmoo~rho0.05", "'set' is missing"]),
    "base that sets": ("algorithms.yaml", "{label: FedSAM}", "{label: FedSAM, set: {rho: 1}}", ["fedsam.set", "only a variant"]),
    "statistics": ("datasets.yaml", "mean: [0.491, 0.482, 0.447]", "mean: [0.5]", ["cifar10.mean", "1 numbers for 3 channels"]),
    "shape": ("datasets.yaml", "shape: [3, 32, 32]", "shape: [32, 32]", ["cifar10.shape", "at least 3"]),
    "source's key": ("datasets.yaml", "\n  source: {source: torchvision, dataset:", "\n  source: {source: torchvision, datset:", ["cifar10.source", "did you mean 'dataset'?"]),
    "another source's key": ("datasets.yaml", "  source: {source: sklearn, test: 500}\n", "  source: {source: sklearn, test: 500, path: x}\n", ["digits.source.path", "is for source npz or imagefolder"]),
    "no class of torchvision": ("datasets.yaml", "\n  source: {source: torchvision, dataset: CIFAR10}", "\n  source: {source: torchvision, dataset: CIFAR}", ["cifar10.source.dataset", "did you mean 'CIFAR10'?"]),
    "figure's kind": (F7, "kind: curves", "kind: curve", [F7, "did you mean 'curves'?"]),
    "figure's row": (F7, "feddyn,", "fedyn,", [F7, "rows[4]", "did you mean 'feddyn'?"]),
    "figure's split": (F7, "path6-100", "path7-100", [F7, "splits", "did you mean 'path6-100'?"]),
    "figure's metric": (F7, "test_accuracy", "accuracy", [F7, "metric", "did you mean 'test_accuracy'?"]),
    "figure without smooth": (F7, "smooth:", "caption2:", [F7, "'caption2'"]),
    "another kind's key": (F5, "seed: 1", "seed: 1\nsmooth: {preview: 3, paper: 3}", [F5, "smooth: ", "this kind of figure does not have it"]),
    "figure without a probe": ("figures/fedlesam2024_F2.yaml", "~probe", "", ["panels[0]", "needs a probe", "fedsmoo-cifar10"]),
    "figure's parameter": ("figures/fedsmoo2023_F4.yaml", "parameter: rho", "parameter: roh", ["panels[3]", "did you mean 'rho'?"]),
    "figure's label": ("figures/dfedsam2023_F6.yaml", "{rho:g}", "{roh:g}", ["panels[2]", "label", "did you mean 'rho'?"]),
    "figure's variant": ("figures/fedsmoo2023_F4.yaml", "variant: beta100", "variant: beta10", ["panels[2]", "did you mean 'fedsmoo~beta100'?"]),
    "base that is no row": ("tables/fedsmoo2023_T3.yaml", "base: fedavg", "base: fedavgm", ["fedsmoo2023_T3.yaml", "base of", "did you mean 'fedavg'?"]),
    "base missing": ("tables/fedsmoo2023_T3.yaml", ", base: fedavg", "", ["columns[0]", "'base' is missing"]),
    "unit of another metric": ("tables/fedsmoo2023_T3.yaml", "unit: V", "unit: percent", ["columns[0]", "'percent' is not one of communication_cost", "V"]),
    "unknown fact": ("tables/fedsmoo2023_T4.yaml", "fact: classes", "fact: clases", ["columns[2]", "did you mean 'classes'?"]),
    "row's reference": ("tables/fedsmoo2023_T8.yaml", "reference: {algorithm:", "reference: {algorihm:", ["rows[0]", "did you mean 'algorithm'?"]),
    "searched of no algorithm": (CIFAR10, "  mofedsam:\n    learning_rate:", "  mofedsan:\n    learning_rate:", [CIFAR10, "searched", "did you mean 'mofedsam'?"]),
    "domain that is none": ("splits.yaml", "domain: art,", "", ["domain-art-1", "'domain' is missing"]),
    "reference without a column": ("reference/fedsmoo2023_T1.csv", ",variant,", ",variation,", ["fedsmoo2023_T1.csv", "column 'variant' is missing; is it 'variation'?"]),
    "figure's open brace": ("figures/dfedsam2023_F6.yaml", "{rho:g}", "{rho", ["panels[2]", "label", "expected '}'", "{rho:g}"]),
    "figure's format": ("figures/dfedsam2023_F6.yaml", "{rho:g}", "{rho:9999999999g}", ["panels[2]", "'9999999999g' is not allowed"]),
    "figure's smoothing": (F7, "smooth: {preview: ", "smooth: {preview: 4, paper: 5}\n#", [F7, "smooth.preview: 4", "odd"]),
    "even grid": (CIFAR10, "    probe: {every: 20", "    analysis: {surface: {grid: 4}}\n    probe: {every: 20", [CIFAR10, "variants.probe.analysis.surface.grid: 4", "odd"]),
    "images of a Hessian": (CIFAR10, "    probe: {every: 20", "    analysis: {hessian: {images: 7}}\n    probe: {every: 20", [CIFAR10, "variants.probe.analysis.hessian.images", "7", "8"]),
    "precision of a Hessian": (CIFAR10, "    probe: {every: 20", "    analysis: {hessian: {precision: float46}}\n    probe: {every: 20", [CIFAR10, "variants.probe.analysis.hessian.precision", "did you mean 'float64'?"]),
    "nobody takes part": ("splits.yaml", "participation: 0.1}", "participation: 1e-9}", ["dir0.6-100.participation: 1e-09 is not allowed", "draws 1e-07 clients a round; at least 0.1", "'cifar10'"]),
    "domains of a dataset without": ("datasets.yaml", "  source: {source: torchvision, dataset: CIFAR10}", "  source: {source: imagefolder, path: x, size: 32, domains: true}", ["cifar10.source.domains", "means nothing"]),
    "nodes' metric misspelt": (PEERS, "node_train_accuracy", "node_train_acuracy", [PEERS, "metrics.decentralised (train_accuracy)", "did you mean 'node_train_accuracy'?", "client_train_accuracy, node_train_accuracy"]),
    "nodes' metric of another name": (PEERS, "decentralised: node_train_accuracy", "decentralised: test_accuracy", [PEERS, "metrics.decentralised (train_accuracy)", "unknown metric 'test_accuracy'"]),
    "nodes' metric that is the others'": (PEERS, "decentralised: node_train_accuracy", "decentralised: train_accuracy", [PEERS, "metrics.decentralised (train_accuracy)", "unknown metric 'train_accuracy'"]),
    "nodes that are not evaluated": ("protocols/dfedsam-cifar100.yaml", "sets: [test, train, nodes]", "sets: [test, train]", [PEERS, "columns[1]", "'node_train_accuracy' needs 'nodes'", "dfedsam-cifar100", "test, train"]),
    "nodes without test images of their own": (PEERS, "{metric: test_accuracy, unit", "{metric: test_accuracy, decentralised: node_test_accuracy, unit", [PEERS, "'node_test_accuracy' needs client_test_images in dfedsam-cifar10"]),
    "train images that are not evaluated": (T1, "metric: test_accuracy", "metric: train_accuracy", [T1, "'train_accuracy' needs 'train'", "fedsmoo-cifar10", "evaluates test"]),
    "a set that is none": ("protocols/dfedsam-cifar10.yaml", "sets: [test, train, nodes]", "sets: [test, train, node]", ["evaluation.sets", "did you mean 'nodes'?"]),
    "no test images for each client": (SAM, "client_test_images: 100", "client_test_images: 0", [SAM, "client_test_images: 0", "at least 1"]),
    "more than there are for each client": (SAM, "client_test_images: 100", "client_test_images: 10001", [SAM, "client_test_images: 10001", "at most 10000", "'cifar10'"]),
    "more than there are at preview scale": (SAM, "client_test_images: 16", "client_test_images: 501", [SAM, "preview.client_test_images: 501", "at most 500", "'digits'"]),
    "test images for each client left out": (SAM, "client_test_images: 100", "#", [SAM, "client_test_images: is missing", "clients"]),
    "test images for clients not looked at": (SAM, "sets: [test, clients]", "sets: [test]", [SAM, "client_test_images: means nothing", "clients"]),
    "variant with other test images": (SAM, "  K5:\n", "  K5:\n    client_test_images: 50\n", [SAM, "variants.K5", "'client_test_images'"]),
    "shards above the classes": ("splits.yaml", "scheme: shards, shards_per_client: 2,", "scheme: shards, shards_per_client: 11,", ["shards2-100.shards_per_client: 11 is not allowed", "at most 10", "'cifar10'", "assignment: permutation"]),
    "assignment of shards": ("splits.yaml", "shards_per_client: 2, clients", "shards_per_client: 2, assignment: different, clients", ["shards2-100.assignment", "did you mean 'different_classes'?"]),
    "assignment of another scheme": ("splits.yaml", "alpha: 0.6, clients: 100,", "alpha: 0.6, assignment: permutation, clients: 100,", ["dir0.6-100.assignment", "scheme shards"]),
    "shards' default said twice": ("splits.yaml", "", "\nmine: {label: [M], scheme: shards, shards_per_client: 2, assignment: different_classes, clients: 100, participation: 0.1, sampling: fixed}\n", ["splits.yaml: mine", "'shards2-100' under another id"]),
    "no splits": ("tables/fedsmoo2023_T7.yaml", "    splits: [path3-100]\n", "", ["columns[0]", "'splits' is missing", "seconds_per_round"]),
    "data set's protocol": ("tables/fedsmoo2023_T4.yaml", "label: CIFAR-100, protocol: fedsmoo-cifar100", "label: CIFAR-100", ["rows[1]", "'protocol' is missing"]),
    "search's protocol": ("tables/fedsmoo2023_T5.yaml", "protocol: fedsmoo-cifar10, ", "", ["columns[0]", "'protocol' is missing"]),
    "search's key": ("tables/fedsmoo2023_T5.yaml", ", key: rho", "", ["rows[2]", "'key' is missing"]),
    "search's metric, unknown": ("tables/fedsmoo2023_T5.yaml", "metric: hp_sam_learning_rate, ", "metric: stored_memory, ", ["rows[2]", "unknown metric 'stored_memory'", "hp_sam_learning_rate"]),
    "fact of an algorithm": ("tables/fedsmoo2023_T4.yaml", "fact: classes", "fact: hp_sam_learning_rate", ["columns[2]", "unknown fact 'hp_sam_learning_rate'"]),
    "search's metric": ("tables/fedsmoo2023_T5.yaml", "metric: hp_sam_learning_rate, ", "", ["rows[2]", "'metric' is missing"]),
    "search's reference": ("tables/fedsmoo2023_T5.yaml", ", reference: {variant: sgd_type}", "", ["columns[0]", "'reference' is missing"]),
    "search's variant": ("tables/fedsmoo2023_T5.yaml", "reference: {variant: sgd_type}", "reference: {}", ["columns[0]", "'variant' is missing"]),
    "figure without panels": ("figures/cifar10_cnn.yaml", "splits: ", "#", ["cifar10_cnn.yaml", "'splits' is missing", "or `panels`"]),
    "panel without a title": ("figures/dfedsam2023_F2.yaml", "  - title: (a) Fashion-MNIST\n    protocol:", "  - protocol:", ["panels[0]", "'title' is missing"]),
    "panel without rows": ("figures/dfedsam2023_F5a.yaml", ", rows: [fedavg]", "", ["panels[0]", "'rows' is missing"]),
    "sweep without rows": ("figures/fedlesam2024_F4.yaml", "rows: [fedlesam_s]\n", "", ["panels[0]", "'rows' is missing"]),
    "sweep of nothing": ("figures/fedsam2022_F3.yaml", "    parameter: active_clients\n", "", ["panels[0]", "'parameter' is missing"]),
    "images of a surface": ("figures/fedlesam2024_F1.yaml", "set: test", "set: tests", ["set: unknown value 'tests'; did you mean 'test'"]),
    "images of curves": ("figures/fedlesam2024_F2.yaml", "metric: sharpness", "set: test\nmetric: sharpness", ["fedlesam2024_F2.yaml: set: ", "this kind of figure does not have it"]),
    "surface without rows": ("figures/fedlesam2024_F1.yaml", "split: dir0.6-100, rows: [fedavg]", "split: dir0.6-100", ["panels[1]", "'rows' is missing"]),
    "figure's c": (F5, "fedsmoo-cifar100", "fedsmoo-cifar10", ["path30-100.classes_per_client: 30", "at most 10", F5]),
}
# fmt: on


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a copy of config/."""
    shutil.copytree(ROOT / "config", tmp_path / "config")
    return tmp_path


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_file_is_named(name: str, project: Path) -> None:
    file, text, other, fragments = MISTAKES[name]
    path = project / "config" / file
    before = path.read_text()
    after = before.replace(text, other, 1) if text else before + other
    assert after != before
    path.write_text(after)
    with pytest.raises(ConfigError) as caught:
        experiment.load(project).check()
    assert any(all(fragment in line for fragment in fragments) for line in str(caught.value).splitlines())


@pytest.mark.parametrize(
    ("file", "text", "other", "words", "blocked"),
    [
        ("splits.yaml", "0.1, clients: 100", "0.1, clients: 0", "dir0.1-100.clients: 0 is not", {"dir0.1-100"}),
        ("splits.yaml", "scheme: dirichlet, alpha: 0.1", "alpha: 0.1", "'scheme' is missing", {"dir0.1-100"}),
        ("algorithms.yaml", "{label: FedDyn}", "{lable: FedDyn}", "feddyn: unknown key 'lable'", {"feddyn"}),
        ("algorithms.yaml", "{label: FedDyn}", "3", "feddyn: 3 is a number", {"feddyn"}),
        ("datasets.yaml", "classes: 100\n", "classes: 1\n", "cifar100.classes: 1 is not", {"fedsmoo-cifar100"}),
    ],
)
def test_a_wrong_entry_blocks_only_what_needs_it(file, text, other, words, blocked, project) -> None:
    path = project / "config" / file
    assert text in path.read_text()
    path.write_text(path.read_text().replace(text, other, 1))
    found = experiment.load(project)
    ids = [("fedsmoo-cifar10", "dir0.6-100", "fedsmoo"), ("fedsmoo-cifar100", "dir0.6-100", "fedavg")]
    ids += [("fedsmoo-cifar10", "dir0.1-100", "fedavg"), ("fedsmoo-cifar10", "dir0.6-100", "feddyn")]
    for each in ids:
        if blocked & {*each}:
            with pytest.raises(ConfigError, match=re.escape(words)):
                run_specs.run(found, "paper", *each, 1)
        else:
            run_specs.run(found, "paper", *each, 1)
    assert {"dfedsam2023_T2", "fedsmoo2023_T1"} & {*found.tables} == {"dfedsam2023_T2"}
    with pytest.raises(ConfigError, match=re.escape(words)) as caught:
        found.check()
    assert "\n" not in str(caught.value)


#: Configuration as merged with the command line -> fragments of the message.
CONFIGURATIONS = {
    "key": ({"tabels": []}, ["'tabels'", "did you mean 'tables'?"]),
    "scale": ({"scale": "papr"}, ["scale", "did you mean 'paper'?"]),
    "device": ({"device": "gpu"}, ["device", "'gpu'", "known: auto, cpu, cuda"]),
    "table": ({"tables": ["fedsmoo2023_T9"]}, ["tables[0]", "'fedsmoo2023_T9'", "did you mean 'fedsmoo2023_T"]),
    "table twice": ({"tables": ["cifar10_cnn", "cifar10_cnn"]}, ["tables[1]", "given twice"]),
    "tables as text": ({"tables": "cifar10_cnn"}, ["tables", "is a text", "a list is wanted"]),
    "column": (
        {"tables": [{"table": "fedsmoo2023_T1", "columns": ["cifar10-path3-10"]}]},
        ["tables[0].columns", "did you mean 'cifar10-path3-100'?"],
    ),
    "table entry's key": ({"tables": [{"table": "fedsmoo2023_T1", "column": ["x"]}]}, ["tables[0]", "column"]),
    "figure": ({"figures": ["fedsmoo2023_F11"]}, ["figures[0]", "did you mean 'fedsmoo2023_F"]),
    "seeds": ({"seeds": [1, 0]}, ["seeds[1]", "0", "at least 1"]),
    "seed twice": ({"seeds": [1, 1]}, ["seeds", "1 is given twice"]),
    "threads": ({"threads": 0}, ["threads", "at least 1"]),
    "dataset": ({"data": {"cifar": {"source": "npz", "path": "x"}}}, ["data", "did you mean 'cifar10'?"]),
    "source": ({"data": {"cifar10": {"source": "npy", "path": "x"}}}, ["data.cifar10.source", "did you mean 'npz'?"]),
    "path": ({"data": {"cifar10": {"source": "npz"}}}, ["data.cifar10", "'path' is missing"]),
    "file": (
        {"data": {"cifar10": {"source": "npz", "path": "no/such.npz"}}},
        ["data.cifar10.path", "'no/such.npz' does not exist", "train_images"],
    ),
    "braces in a path": (
        {"data": {"cifar10": {"source": "npz", "path": "{seed}.npz"}}},
        ["data.cifar10.path", '"{seed}.npz" is not allowed', "braces"],
    ),
    "order": (
        {"data": {"cifar10": {"source": "torchvision", "dataset": "CIFAR10", "order": "no/such.npz"}}},
        ["data.cifar10.order", "no/such.npz: no such file", "studies/order.py"],
    ),
    "braces in an order": (
        {"data": {"cifar10": {"source": "torchvision", "dataset": "CIFAR10", "order": "{seed}.npz"}}},
        ["data.cifar10.order", '"{seed}.npz" is not allowed', "braces"],
    ),
    "an order of folders": (
        {"data": {"cifar10": {"source": "imagefolder", "path": "x", "size": 32, "order": "order.npz"}}},
        ["data.cifar10.order", "it is for source torchvision or npz"],
    ),
    "a text for an order": (
        {"data": {"cifar10": {"source": "torchvision", "dataset": "CIFAR10", "order": str(ROOT / "README.md")}}},
        ["data.cifar10.order: ", "README.md cannot be read as one that studies/order.py wrote"],
    ),
    "an order of more images": (
        {
            "data": {
                "cifar10": {
                    "source": "torchvision",
                    "dataset": "CIFAR10",
                    "order": ORDER,
                    "images": {"train": 500, "test": 100},
                }
            }
        },
        ["data.cifar10.order", "orders 50000 train images, not 500"],
    ),
    "squeezed images in the place of cut ones": (
        {"data": {"pacs": {"source": "imagefolder", "path": "x", "size": 64, "domains": True}}},
        ["data.pacs.resize", "is missing", "datasets.yaml", "pacs.source has 256 beside size 224", "resize: 64"],
    ),
    "folder": (
        {"data": {"cifar10": {"source": "imagefolder", "path": "no/such", "size": 32}}},
        ["data.cifar10.path", "'no/such' does not exist", "train/<class>"],
    ),
    "text for data": ({"data": "cifar10.npz"}, ["data", '"cifar10.npz" is a text', "a mapping is wanted"]),
    "not finite": ({"seeds": [float("nan")]}, ["seeds[0]", "nan", "finite"]),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_mistake_in_the_configuration_is_named(name: str) -> None:
    change, fragments = CONFIGURATIONS[name]
    with pytest.raises(ConfigError) as caught:
        experiment.load(ROOT, {"scale": "preview", "tables": [], "figures": [], **change}).check()
    for fragment in ["config/config.yaml or --config", *fragments]:
        assert fragment in str(caught.value)


def test_a_key_twice_in_config_yaml_is_named_though_snakemake_read_it(project: Path) -> None:
    path = project / "config" / "config.yaml"
    path.write_text(path.read_text() + "scale: paper\n")
    with pytest.raises(
        ConfigError, match=r"config/config\.yaml: line \d+: key 'scale' is given twice, first in line \d+"
    ):
        experiment.load(project, {"scale": "paper", "tables": [], "figures": []})


def test_yaml_reads_anchors_merges_and_exponents(project: Path) -> None:
    path = project / "config" / "splits.yaml"
    path.write_text(
        path.read_text()
        + "a: &a {label: [A], scheme: dirichlet, alpha: 5e-1, clients: 10, participation: 1}\n"
        + "b: {<<: *a, clients: 20}\n"
        + "c: {<<: *a, clients: 30}\n"
    )
    splits = experiment.load(project).catalog.splits
    assert [splits[name]["clients"] for name in "abc"] == [10, 20, 30]
    assert splits["c"]["alpha"] == 0.5


@pytest.mark.parametrize(
    ("question", "fragments"),
    [
        (("preview", "fedsmoo-cifar10", "dir0.6-100", "fedsmo", 1), ["'fedsmo'", "did you mean 'fedsmoo'?"]),
        (("preview", "fedsmoo-cifar1", "dir0.6-100", "fedsmoo", 1), ["did you mean 'fedsmoo-cifar10'?"]),
        (("preview", "fedsmoo-cifar10", "dir0.6-10", "fedsmoo", 1), ["did you mean 'dir0.6-100'?"]),
        (("previw", "fedsmoo-cifar10", "dir0.6-100", "fedsmoo", 1), ["did you mean 'preview'?"]),
        (
            ("preview", "fedsmoo-cifar10", "path30-100", "fedsmoo", 1),
            ["path30-100.classes_per_client: 30", "at most 10"],
        ),
    ],
)
def test_a_run_that_does_not_exist_is_named(question: tuple, fragments: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        run_specs.run(experiment.load(ROOT), *question)
    for fragment in fragments:
        assert fragment in str(caught.value)


def test_the_styles_that_the_catalog_knows_are_those_that_are_drawn() -> None:
    entry = {"source": {"source": "sklearn", "test": 1, "expand": "styles"}, "domains": ["plain", "blured"]}
    with pytest.raises(ConfigError, match=r"d\.domains\[1\]: unknown value 'blured'; did you mean 'blurred'") as caught:
        schemas.refuse([one for one in schemas.mistakes({"d": entry}, "datasets") if one.validator == "enum"], "file")
    assert str(caught.value).partition("known: ")[2].split(", ") == sorted(digits.STYLES)


@pytest.mark.parametrize(
    ("text", "other", "words"),
    [
        (b"79.52,", b"nan,", ["line 2: value: 'nan' is not a finite number"]),
        (b"79.52,0.13", b"79.52,1e999", ["line 2: std: '1e999' is not a finite number"]),
        (b"79.52,", b"79;52,", ["line 2: value: '79;52' is not a finite number"]),
        (b"fedavg,,,79.52,0.13,", b"fedavg,,,", ["line 2: too few fields"]),
        (b"fedavg,,,79.52", b"fedavg,,,,,79.52", ["line 2: too many fields"]),
        (b",percent,", b",procent,", ["line 2: unknown unit 'procent'; did you mean 'percent'?"]),
        (
            b"T1,test_accuracy,",
            b"T1,tset_accuracy,",
            ["line 2: unknown metric 'tset_accuracy'; did you mean 'test_acc"],
        ),
        (b"79.52,", b"\xe9,", ["codec can't decode"]),
        (b"paper,table", b"\xef\xbb\xbfpaper;table", ["line 2: too many fields"]),
    ],
)
def test_a_broken_line_of_the_reference_is_named(text: bytes, other: bytes, words: list[str], project: Path) -> None:
    path = project / "config" / "reference" / "fedsmoo2023_T1.csv"
    before = path.read_bytes()
    assert text in before
    path.write_bytes(before.replace(text, other, 1))
    with pytest.raises(ConfigError) as caught:
        experiment.load(project).check()
    for word in ["config/reference/fedsmoo2023_T1.csv", *words]:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("file", "text", "other"),
    [
        ("figures/fedsmoo2023_F4.yaml", "rows: [fedsmoo]\n", "rows: [fedadam]\n"),
        ("figures/dfedsam2023_F6.yaml", '{row: dfedsam, label: "ρ', '{row: dfedavgm, label: "ρ'),
    ],
)
def test_a_parameter_that_a_row_of_a_figure_lacks_is_named(file: str, text: str, other: str, project: Path) -> None:
    path = project / "config" / file
    before = path.read_text()
    assert text in before
    path.write_text(re.sub(r"points: .*", "points: [{}]", before.replace(text, other)))
    with pytest.raises(ConfigError, match=r"config/figures.*: (fedadam|dfedavgm) in .*unknown parameter '"):
        figure_specs.figure_spec(experiment.load(project), "preview", path.stem)


@pytest.fixture
def plain(project: Path) -> dict:
    """A protocol without `algorithms` and `targets`, at both scales, and the table that asks for it alone."""
    path = project / "config/protocols/fedsmoo-cifar10.yaml"
    protocol = yaml.safe_load(path.read_text())
    for key in ("algorithms", "targets", "searched", "tune", "variants"):
        protocol.pop(key, None)
        protocol["preview"].pop(key, None)
    path.with_name("plain.yaml").write_text(yaml.safe_dump(protocol))
    table = {"title": "t", "paper": "p", "reference": "none", "reason": "r", "rows": ["fedavg", "fedsmoo"]}
    table |= {
        "metric": "test_accuracy",
        "unit": "percent",
        "columns": [{"protocol": "plain", "splits": ["dir0.6-100"]}],
    }
    (project / "config/tables/plain.yaml").write_text(yaml.safe_dump(table))
    return table


def test_a_protocol_without_algorithms_has_every_ones_defaults(project: Path, plain: dict) -> None:
    exp = experiment.load(project)
    for scale in ("preview", "paper"):
        runs = {run.algorithm: run for run in cell_specs.table_runs(exp, scale, "plain")}
        declared = algorithms.load("fedsmoo").parameters()
        params = runs["fedsmoo"].description["update"]["params"]
        assert params == {name: parameter.default for name, parameter in declared.items()}
        assert runs["fedavg"].description["learning_rate"] == runs["fedsmoo"].description["learning_rate"]


def test_a_protocol_without_targets_has_none(project: Path, plain: dict) -> None:
    plain |= {"metric": "rounds_to_target", "unit": "rounds"}
    plain["columns"] = [{"protocol": "plain", "splits": ["dir0.6-100"], "targets": ["t1"]}]
    plain["columns"][0] |= {"metric": "rounds_to_target", "unit": "rounds"}
    (project / "config/tables/plain.yaml").write_text(yaml.safe_dump(plain))
    with pytest.raises(ConfigError, match=r"no targets for split 'dir0\.6-100'; it has some for: none"):
        experiment.load(project).check()
