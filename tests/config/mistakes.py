"""Mistakes in the configuration, on the command line and in what commands are given: where, what, and the message.

Every message names the file, the key, the value, what is allowed and the nearest match; test_mistakes.py makes each of
these mistakes once.
"""

# A line a mistake reads best; this table is as wide as it is.
# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

from repository import ROOT

CIFAR10 = "protocols/fedsmoo-cifar10.yaml"
T1 = "tables/fedsmoo2023_T1.yaml"
T1_CSV = "reference/fedsmoo2023_T1.csv"
SAM = "protocols/fedsam-cifar10.yaml"
PEERS = "tables/dfedsam2023_T1.yaml"
ORDER = str(ROOT / "results/published/orders/cifar10.npz")
TOPOLOGY = "\nmine: {label: [x], scheme: dirichlet, alpha: 0.7, clients: 100, participation: 1, sampling: all, topology: %s}\n"

DIGITS = {"name": "digits", "classes": 10, "shape": [1, 8, 8], "source": {"source": "sklearn", "test": 500}}
SOURCES = [{"source": "sklearn", "test": 500}, {"source": "torchvision", "dataset": "CIFAR10"}, {"source": "npz", "path": "x.npz"}, {"source": "imagefolder", "path": "x", "size": 8}]

#: Scheme -> a specification of it with nothing but what is needed.
DEALS = {
    "central": {},
    "iid": {"clients": 5},
    "dirichlet": {"clients": 5, "classes": 10, "alpha": 0.6},
    "grouped_dirichlet": {"clients": 5, "classes": 10, "alpha": 0.6},
    "pathological": {"clients": 5, "classes": 10, "classes_per_client": 2},
    "shards": {"clients": 50, "shards_per_client": 2, "assignment": "different_classes"},
    "domain": {"held_out": 0, "clients_per_domain": 2},
}
DEALS = {scheme: {"dataset": "digits", "scheme": scheme, "seed": 1, **more} for scheme, more in DEALS.items()}

# fmt: off
#: File under config/, text, what replaces it, fragments of one line of the message; an empty text appends. Wrong types, keys and
#: ranges of one value: test_document.py and YAML below.
FILES = {
    "label of another row": (T1, "[fedavg,", "[{row: fedavg, label: FedSMOO},", [T1, "rows: 'fedsmoo' has the label 'FedSMOO', as 'fedavg' has"]),
    "window without so many evaluations": (CIFAR10, "window: 50,", "window: 801,", [CIFAR10, "evaluation.window: 801 is not allowed; at most 800"]),
    "schedule next to an algorithm's decay": (CIFAR10, "learning_rate_decay: 0.998 #", "learning_rate_schedule: {kind: cosine, final_learning_rate: 0.001} #", [CIFAR10, "algorithms.feddyn.learning_rate_decay: 0.9995 is not allowed next to the protocol's learning_rate_schedule", "remove one of them, or give feddyn a learning_rate_schedule of its own"]),
    "schedule next to the decay of a second algorithm": (CIFAR10, "learning_rate_decay: 0.998 #", "learning_rate_schedule: {kind: cosine, final_learning_rate: 0.001} #", [CIFAR10, "algorithms.fedsmoo.learning_rate_decay: 0.9995 is not allowed"]),
    "an even smoothing": (CIFAR10, "smoothing: 21}", "smoothing: 20}", [CIFAR10, "evaluation.smoothing: 20 is not allowed; expected an odd number"]),
    "no unit": (T1, "unit: percent\n", "", [T1, "key 'unit' is missing; test_accuracy has: ", "percent"]),
    "unknown accuracy": (SAM, "accuracy: client_test_accuracy", "accuracy: client_test_acuracy", [SAM, "accuracy", "did you mean 'client_test_accuracy'?"]),
    "open line of an unknown row": ("protocols/dfedsam-cifar10.yaml", "rows: [dfedsam_mgs]", "rows: [dfedsam_mg]", ["unstated.dfedsam_mgs.rows", "did you mean 'dfedsam_mgs'?"]),
    "no reference, no reason": (T1, "reference: fedsmoo2023_T1", "reference: none", [T1, "'reason' is missing"]),
    "column twice": (T1, "path6-200", "path6-100", [T1, "columns[2]", "'cifar10-path6-100' is given twice; give each group of columns its own `id`"]),
    "targets missing": (T1, "test_accuracy", "rounds_to_target", [T1, "needs `targets:`"]),
    "unknown algorithm": (CIFAR10, "  fedcm: {", "  fedcn: {", [CIFAR10, "algorithms", "did you mean 'fedcm'?"]),
    "unknown parameter": (CIFAR10, "{rho: 0.01,", "{rhoo: 0.01,", [CIFAR10, "algorithms.fedsam", "did you mean 'rho'?"]),
    "more clients than images": ("splits.yaml", "clients: 100", "clients: 60000", ["dir0.6-100.clients", "60000", "at most 50000", "'cifar10'"]),
    "same split, two ids": ("splits.yaml", "", "\nmine: {label: [M], scheme: dirichlet, alpha: 0.60, replacement: true, clients: 100, participation: 0.1}\n", ["splits.yaml: mine", "'dir0.6-100' under another id"]),
    "base that sets": ("algorithms.yaml", "{label: FedSAM}", "{label: FedSAM, set: {rho: 1}}", ["fedsam.set", "only a variant"]),
    "statistics": ("datasets.yaml", "mean: [0.491, 0.482, 0.447]", "mean: [0.5]", ["cifar10.mean", "1 numbers for 3 channels"]),
    "figure without a probe": ("figures/fedlesam2024_F2.yaml", "~probe", "", ["panels[0]", "needs a probe", "fedsmoo-cifar10"]),
    "values without a key": ("figures/fedsam2022_F3.yaml", "points: [{split: dir0.6-100-p10}, {}, {split: dir0.6-100-p40}]", "values: [3]", ["panels[0]: values", "active_clients", "write `points`"]),
    "sweep without values": ("figures/fedsmoo2023_F4.yaml", "values: [0.01, 1]", "", ["panels[3]", "'values' is missing"]),
    "base missing": ("tables/fedsmoo2023_T3.yaml", ", base: fedavg", "", ["columns[0]", "'base' is missing"]),
    "reference without a column": ("reference/fedsmoo2023_T1.csv", ",variant,", ",variation,", ["fedsmoo2023_T1.csv", "column 'variant' is missing; is it named 'variation'?"]),
    "figure's open brace": ("figures/dfedsam2023_F6.yaml", "{rho:g}", "{rho", ["panels[2]", "label", "expected '}'", "{rho:g}"]),
    "nobody takes part": ("splits.yaml", "participation: 0.1}", "participation: 1e-9}", ["dir0.6-100.participation: 1e-09 is not allowed", "1e-07 clients join a round; expected at least 0.1", "'cifar10'"]),
    "domains of a dataset without": ("datasets.yaml", "  source: {source: torchvision, dataset: CIFAR10}", "  source: {source: imagefolder, path: x, size: 32, domains: true}", ["cifar10.source.domains", "has no effect"]),
    "nodes that are not evaluated": ("protocols/dfedsam-cifar100.yaml", "sets: [test, train, nodes]", "sets: [test, train]", [PEERS, "columns[1]", "'node_train_accuracy' needs 'nodes'", "dfedsam-cifar100", "test, train"]),
    "nodes without test images of their own": (PEERS, "{metric: test_accuracy, unit", "{metric: test_accuracy, decentralised: node_test_accuracy, unit", [PEERS, "'node_test_accuracy' needs client_test_images in dfedsam-cifar10"]),
    "more than there are for each client": (SAM, "client_test_images: 100", "client_test_images: 10001", [SAM, "client_test_images: 10001", "at most 10000", "'cifar10'"]),
    "test images for each client left out": (SAM, "client_test_images: 100", "#", [SAM, "client_test_images: is missing", "clients"]),
    "test images for clients not looked at": (SAM, "sets: [test, clients]", "sets: [test]", [SAM, "client_test_images: has no effect", "clients"]),
    "a fraction among percentages": (T1_CSV, ",79.52,0.13,", ",0.7952,0.13,", ["fedsmoo2023_T1.csv: line 2: value: 0.7952 is not a percentage like the others, from", "write 79.52, or another unit"]),
    "two variants with the same settings": (T1, "fedsam, mofedsam, fedsmoo]\n", "fedsam, mofedsam, fedsmoo, fedsmoo~a, fedsmoo~b]\nalgorithms: {fedsmoo~a: {set: {penalty: 7}}, fedsmoo~b: {label: B, set: {penalty: 7.0}}}\n", ["rows: 'fedsmoo~a' and 'fedsmoo~b' have the same settings; remove one of them"]),
    "a variant that changes nothing": (T1, "fedsam, mofedsam, fedsmoo]\n", "fedsam, mofedsam, fedsmoo, fedsmoo~a]\nalgorithms: {fedsmoo~a: {set: {clip_norm: 10}}}\n", ["rows: 'fedsmoo' and 'fedsmoo~a' have the same settings; remove one of them"]),
    "a label that differs by blanks": (T1, "fedsam, mofedsam, fedsmoo]\n", "fedsam, mofedsam, {row: fedsmoo, label: ' FedAvg '}]\n", ["has the label 'FedAvg', as 'fedavg' has"]),
    "agrees above near": (T1, "{agrees: 1, near: 2}", "{agrees: 2, near: 1}", ["tolerance.agrees: 2 is not allowed", "expected at most 1, the value of `near`"]),
    "no splits": ("tables/fedsmoo2023_T7.yaml", "    splits: [path3-100]\n", "", ["columns[0]", "'splits' is missing", "seconds_per_round"]),
    "panel without rows": ("figures/dfedsam2023_F5a.yaml", ", rows: [fedavg]", "", ["panels[0]", "'rows' is missing"]),
    # Topologies, central splits, and what a paper's rows need.
    "clique above the clients": ("splits.yaml", "", TOPOLOGY % "clique, neighbours: 101", ["clique of 101 of 100 clients is not possible", "2 to 100"]),
    "a label that pdflatex cannot print": (T1, "[fedavg,", "[{row: fedavg, label: 平均},", [T1, "rows[0].label", "cannot print '平'", "Latin and Greek"]),
    "images too small": ("datasets.yaml", "shape: [1, 8, 8]", "shape: [1, 2, 2]", ["config/protocols", "preview.model", "cnn_tiny", "at least", "2 x 2"]),
    "targets of no split": (CIFAR10, '"*": {t1: 0.68', '"dri*": {t1: 0.68', [CIFAR10, "targets", "'dri*'"]),
    "variant deals otherwise": (CIFAR10, "  cnn:\n", "  cnn:\n    preview: {clients_times: 1}\n", [CIFAR10, "variants.cnn.preview", "'clients_times'"]),
    "a row that no file declares": (T1, "[fedavg,", "[fedavg~fast,", [T1, "rows[0]: unknown algorithm 'fedavg~fast'", "declare it, such as `algorithms: {fedavg~fast: {set: {KEY: VALUE}}}`"]),
    "algorithm without a file": ("algorithms.yaml", "", "\nfedsam2: {label: X}\n", ["algorithms.yaml", "did you mean 'fedsam'?"]),
    "value out of bounds": ("figures/fedsmoo2023_F4.yaml", "values: [0.01, 1]", "values: [-1]", ["panels[3].values", "rho"]),
    "torus of no product": ("splits.yaml", "", (TOPOLOGY % "grid").replace("100", "94"), ["product of two numbers from 3 up, such as 93 or 95, not 94"]),
    "images at this machine": ("datasets.yaml", "source: {source: torchvision, dataset: CIFAR10}", "source: {source: torchvision, dataset: CIFAR10, images: {train: 1, test: 1}}", ["datasets.yaml: cifar10.source.images: ", "it is for `data` of config"]),
    # The printed numbers.
    "printed, two fields": (T1_CSV, "79.52,", "79;52,", [T1_CSV, "line 2: value: '79;52' is not a finite number"]),
    "printed, too few fields": (T1_CSV, "fedavg,,,79.52,0.13,", "fedavg,,,", [T1_CSV, "line 2: too few fields"]),
    "printed unit": (T1_CSV, ",percent,", ",procent,", [T1_CSV, "line 2: unknown unit 'procent'; did you mean 'percent'?"]),
    "printed, no text": (T1_CSV, "79.52,", "\udce9,", [T1_CSV, "codec can't decode"]),
    "erratum's table": ("errata.yaml", "tables: [fedsam2022_T1, fedsam2022_T4]", "tables: [fedsam2022_T11]", ["errata.yaml", "A1.tables[0]: unknown reference 'fedsam2022_T11'", "did you mean 'fedsam2022_T1'"]),
    "a flag without an erratum": ("errata.yaml", "\nB3:", "\nB33:", ["reference/fedsmoo2023_T6.csv", "flag: unknown erratum 'B3'"]),
    "a constant schedule": (CIFAR10, "learning_rate_decay: 0.998 #", "learning_rate_schedule: {kind: constant} #", [CIFAR10, "unknown value 'constant'; known: cosine, exponential, step; ", "constant one is learning_rate_decay: 1.0"]),
    "milestones of a row after the last round": (CIFAR10, "  fedcm: {", "  fedcm: {learning_rate_schedule: {kind: step, milestones: [800], factor: 0.1}, ", [CIFAR10, "algorithms.fedcm.learning_rate_schedule.milestones: 800 is not allowed; at most 799"]),
    "targets of some splits": (CIFAR10, '"*": {t1: 0.68', '"dir*": {t1: 0.68', ["config/tables/fedsmoo2023_T", "has no targets for split 'path"]),
    "odd regular graph": ("splits.yaml", "", (TOPOLOGY % "regular, neighbours: 3").replace("100", "99"), ["splits.yaml: mine", "regular: 3 neighbours times 99 clients must be even"]),
    "held-out images without their set": (CIFAR10, "precision: float32\n", "precision: float32\nvalidation: 0.1\n", [CIFAR10, "evaluation.sets", "'validation'"]),
}


#: Configuration as merged with the command line -> fragments of the message.
VALUES = {
    "key": ({"tabels": []}, ["'tabels'", "did you mean 'tables'?"]),
    "scale": ({"scale": "papr"}, ["scale", "did you mean 'paper'?"]),
    "table": ({"tables": ["fedsmoo2023_T9"]}, ["tables[0]", "'fedsmoo2023_T9'", "did you mean 'fedsmoo2023_T"]),
    "table twice": ({"tables": ["fedsmoo2023_T6", "fedsmoo2023_T6"]}, ["tables[1]", "given twice"]),
    "column": ({"tables": [{"table": "fedsmoo2023_T1", "columns": ["cifar10-path3-10"]}]}, ["tables[0].columns", "did you mean 'cifar10-path3-100'?"]),
    "seed twice": ({"seeds": [1, 1]}, ["seeds", "1 is given twice"]),
    "dataset": ({"data": {"cifar": {"source": "npz", "path": "x"}}}, ["data", "did you mean 'cifar10'?"]),
    "path": ({"data": {"cifar10": {"source": "npz"}}}, ["data.cifar10", "'path' is missing"]),
    "file": ({"data": {"cifar10": {"source": "npz", "path": "no/such.npz"}}}, ["data.cifar10.path", "'no/such.npz' does not exist", "train_images"]),
    "braces in a path": ({"data": {"cifar10": {"source": "npz", "path": "{seed}.npz"}}}, ["data.cifar10.path", '"{seed}.npz" is not allowed', "braces"]),
    "order": ({"data": {"cifar10": {"source": "torchvision", "dataset": "CIFAR10", "order": "no/such.npz"}}}, ["data.cifar10.order", "no/such.npz: no such file", "studies/order.py"]),
    "a text for an order": ({"data": {"cifar10": {"source": "torchvision", "dataset": "CIFAR10", "order": str(ROOT / "README.md")}}}, ["data.cifar10.order: ", "README.md cannot be read as one that studies/order.py wrote"]),
    "an order of more images": ({"data": {"cifar10": {"source": "torchvision", "dataset": "CIFAR10", "order": ORDER, "images": {"train": 500, "test": 100}}}}, ["data.cifar10.order", "orders 50000 train images, not 500"]),
    "squeezed images in the place of cut ones": ({"data": {"pacs": {"source": "imagefolder", "path": "x", "size": 64, "domains": True}}}, ["data.pacs.resize", "is missing", "datasets.yaml", "pacs.source has 256 with size 224", "resize: 64"]),
    "folder": ({"data": {"cifar10": {"source": "imagefolder", "path": "no/such", "size": 32}}}, ["data.cifar10.path", "'no/such' does not exist", "train/<class>"]),
    **{f"no {key}": ({key: ["mine"]}, [f"{key}: there is no folder 'mine' ({Path('mine').resolve()})"]) for key in ("folders", "published")},
    "published without a run": ({"published": ["src"]}, ["published: 'src' contains no run, no folder with run.json"]),
    "highlight": ({"highlight": "fedsaam"}, ["highlight: unknown algorithm 'fedsaam'", "did you mean 'fedsam'?"]),
}

#: Content of a YAML file -> what is said.
YAML = {
    "a: 1\na: 2": "line 2: key 'a' is given twice, first in line 1",
    "a: &x {b: 1}\nc: {<<: *x, d: 1, d: 2}": "line 2: key 'd' is given twice",
    "a: &x [*x]": "nested deeper than 32 levels",
    "a: *x": "undefined alias",
    "a: &x [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(f"a{n}: &x{n} [{', '.join([f'*x{n - 1}' if n else '*x'] * 10)}]\n" for n in range(9)): "values, anchors",
    f"a: {'[' * 100000}": "not YAML",
    "".join(f"{'  ' * n}a:\n" for n in range(40)): "nested deeper than 32 levels",
    "1: a": "line 1: key '1' is not a text; write it in quotes",
    "a: 1e-400": "line 1: 1e-400 would be read as 0",
    "a: 0\nb: [-1.5E-999]": "line 2: -1.5E-999 would be read as -0",
    "a: 1e400": "line 1: 1e400 would be read as inf",
    "[a]: 1": "key that is a list or a mapping is not a text",
    "a: !!python/object/apply:os.system [ls]": "could not determine a constructor for the tag",
    "a: !!int x": "not YAML",
    'a: "x\\ny"': "write >- before a text of several lines",
    'a: "\\0"': "control character '\\x00'",
    'a: "x\\u202ey"': "control character '\\u202e'",
    'a: "\\ud800"': "not YAML",
    "a: 1\n---\na: 2": "but found another document",
}

#: Keys that lead to a place of a file of one's own, the value put there -> what is said.
OWN = {
    "dataset": (("dataset",), {}, "'dataset'", "did you mean 'datasets'"),
    "datasets.photos.source.sise 3": (("datasets", "photos", "source", "sise",), 3, "datasets.photos.source", "did you mean 'size'"),
    "protocols.photos.model": (("protocols", "photos", "model",), {"name": "cn"}, "protocols.photos.model", "'cn'"),
    "splits.a;x": (("splits", "a;x",), {"scheme": "iid", "clients": 2, "participation": 1}, 'splits: "a;x" is not allowed; an id has at most 64'),
    "algorithms": (("algorithms",), {"fedsam~x": {"set": {"rh": 1}}}, "algorithms.fedsam~x.set", "did you mean 'rho'"),
    "protocols.photos.variants": (("protocols", "photos", "variants",), {"short": {"preview": {"rounds": 1}}}, "protocols.photos.variants.short.preview", "no `preview`"),
}

#: `fetch --spec`: what replaces keys of DIGITS (None: the key is gone) -> what is said.
DATASETS = {
    **{f"no {key}": ({key: None}, f"key '{key}' is missing; ") for key in DIGITS},
    **{
        f"{source['source']} without {key}": ({"source": {**source, key: None}}, f"dataset 'digits': source: key '{key}' is missing; ")
        for source in SOURCES for key in source if key != "source"
    },
    "a text for a source": ({"source": "npz"}, 'source: "npz" is a text; expected a mapping'),
    "a path of digits": ({"source": {"source": "sklearn", "test": 500, "path": "x"}}, 'source.path: "x" is not allowed; it is for source torchvision, npz or imagefolder'),
    "other numbers than the source's": ({"train": 1300, "test": 500}, "its source gives 1297 training and 500 test images, but `train: 1300`"),
}

#: `partition --spec`: scheme and what replaces keys of its specification -> what is said.
PARTITIONS = {
    **{f"{scheme} without {key}": (scheme, {key: None}, f"key '{key}' is missing; ") for scheme, spec in DEALS.items() for key in spec},
    "a misspelt key": ("dirichlet", {"replcement": False}, "unknown key 'replcement'; did you mean 'replacement'?"),
    "fewer clients than none": ("iid", {"clients": -5}, "clients: -5 is not allowed; expected at least 1"),
    "a seed above all": ("iid", {"seed": 1 << 32}, "seed: 4294967296 is not allowed; expected at most 4294967295"),
    "an unknown scheme": ("iid", {"scheme": "iidd"}, "unknown value 'iidd'; did you mean 'iid'?"),
    "an unknown assignment": ("shards", {"assignment": "different"}, "unknown value 'different'; did you mean 'different_classes'?"),
    "more classes than the data has": ("pathological", {"classes": 11}, "class 10 of 11 has no training image"),
}

#: Words of the command line -> what is said.
COMMANDS = {
    "settings of a run": (("train", "--run", '{"rouns": 3}', "--dataset", "d", "--partition", "p", "--out", "o"), "--run: key ", "describe RUN_FOLDER` prints complete settings"),
    "a sub-command": (("trian",), "argument COMMAND: unknown command 'trian'; did you mean 'train'? known: cell, check, "),
    "a scale": (("verify", "--scale", "papr"), "argument --scale: unknown value 'papr'; did you mean 'paper'?"),
    "a device": (("plan", "fedsmoo2023_T1", "--config", "device=gpu"), "unknown value 'gpu'; known: auto, cpu, cuda"),
    "a share": (("hessian", "r", "--residual", "nan"), "argument --residual: 'nan': expected a number from 0 to 1"),
    "a value of the configuration": (("plan", "--config", "fedsmoo2023_T1"), "argument --config: 'fedsmoo2023_T1' is neither KEY=VALUE nor a YAML"),
}

#: Scale, protocol, split and algorithm of a run -> what is said.
RUNS = {
    "protocol": (("preview", "fedsmoo-cifar1", "dir0.6-100", "fedsmoo"), "did you mean 'fedsmoo-cifar10'?"),
    "classes of the split": (("preview", "fedsmoo-cifar10", "path30-100", "fedsmoo"), "path30-100.classes_per_client: 30", "at most 10"),
    "split of another parameter": (("paper", "fedsmoo-cifar10", "dir0.7-100", "fedavg"), "unknown split 'dir0.7-100'; did you mean 'dir0.6-100'"),
    "algorithm of one's own": (("paper", "fedsmoo-cifar10", "dir0.6-100", "fedmedian"), "unknown algorithm 'fedmedian'", "src/flatfed/algorithms, and your folders in `folders`"),
    "algorithm like none": (("paper", "fedsmoo-cifar10", "dir0.6-100", "xyz"), "unknown algorithm 'xyz'; nearest: ", "; all "),
}
# fmt: on
