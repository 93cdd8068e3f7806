"""The FedSMOO authors' code, unchanged, with the clients, initial weights and client sampling of a FlatFed run.

    git clone https://github.com/woodenchild95/FL-Simulator FOLDER
    flatfed describe 'results/paper/runs/fedsmoo-cifar10/path3-100/fedsmoo/seed1' > run.json
    python benchmarks/authors_code.py FOLDER --run run.json --dataset resources/cifar10 --partition PARTITION.npz \\
        --rounds 15 --out theirs.csv

Compare the curves, not single rounds: the code draws its own batches and augmentations. Large tables of client vectors
are temporary files next to OUT.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from flatfed import algorithms
from flatfed.algorithms._layout import Layout
from flatfed.data import dataset, partition
from flatfed.engine import weights
from flatfed.engine.batches import active_clients
from flatfed.errors import DataError
from flatfed.runs.run_config import DatasetSettings, RunConfig

#: Algorithm -> class of FL-Simulator.
METHODS = {
    "fedavg": "FedAvg",
    "scaffold": "SCAFFOLD",
    "fedcm": "FedCM",
    "feddyn": "FedDyn",
    "fedsam": "FedSAM",
    "mofedsam": "MoFedSAM",
    "fedgamma": "FedGamma",
    "fedspeed": "FedSpeed",
    "fedsmoo": "FedSMOO",
}
#: Parameter -> name in FL-Simulator.
PARAMETERS = {"penalty": "lamb", "rho": "rho", "alpha": "alpha", "server_learning_rate": "global_learning_rate"}
#: Values that FL-Simulator cannot change.
FIXED = {
    "clip_norm": 10.0,
    "augmentation": "crop_flip_half",
    "model": {"name": "resnet18_gn", "options": {"groups": 2, "stem": "imagenet"}},
}
#: Tables with more numbers are files.
LARGE = 10**8


def values(config: RunConfig, clients: int, rounds: int, out: Path) -> argparse.Namespace:
    """Return the options of FL-Simulator's train.py for a run; DataError if it has no option for a value."""
    update, settings = config.update, config.as_json()
    declared = algorithms.load(update.name).parameters()
    ours = {**{key: settings[key] for key in FIXED}, **update.params}
    theirs = {**FIXED, **{name: parameter.default for name, parameter in declared.items() if name not in PARAMETERS}}
    for key, value in theirs.items():
        if ours[key] != value:
            raise DataError(f"{key}: the run has {ours[key]!r}, FL-Simulator has only {value!r}")
    named = {PARAMETERS[name]: value for name, value in update.params.items() if name in PARAMETERS}
    defaults = {"lamb": 0.1, "rho": 0.1, "alpha": 0.1, "global_learning_rate": 1.0}
    return argparse.Namespace(
        method=METHODS[update.name],
        dataset="CIFAR10",
        model="ResNet18",
        non_iid=True,
        total_client=clients,
        comm_rounds=rounds,
        local_epochs=config.local_epochs,
        batchsize=config.batch_size,
        weight_decay=config.weight_decay,
        local_learning_rate=config.learning_rate,
        lr_decay=config.learning_rate_decay,
        seed=20,
        gamma=1.0,
        use_RI=False,
        **{"split_rule": "Pathological", "split_coef": 0.0, "active_ratio": 0.0},  # only part of a file name
        out_file=str(out),
        **{**defaults, **named},
    )


class RunData:
    """A run's images in FL-Simulator's form: normalised float32 arrays."""

    def __init__(self, settings: DatasetSettings, data: dataset.Dataset, split: partition.Partition):
        mean, std = (np.array(numbers, np.float32)[:, None, None] for numbers in (settings.mean, settings.std))

        def images(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            pixels = np.asarray(data.images[positions], np.float32) / np.float32(255)
            return (pixels - mean) / std, data.labels[positions][:, None]

        members = np.split(split.indices, split.offsets[1:-1])
        self.dataset = "CIFAR10"
        self.client_x, self.client_y = zip(*(images(np.sort(member)) for member in members), strict=True)
        self.test_x, self.test_y = images(split.test)


@contextmanager
def tables_in(folder: Path) -> Iterator[None]:
    """Keep large tables, made by torch.zeros or Tensor.repeat, in files of ``folder``."""
    zeros, repeat = torch.zeros, Tensor.repeat

    def table(*shape: int) -> Tensor:
        file = folder / str(len(list(folder.iterdir())))
        return torch.from_file(str(file), shared=True, size=int(np.prod(shape))).view(*shape)

    def zeros_in_file(*size: Any, **options: Any) -> Tensor:
        shape = size[0] if size and not isinstance(size[0], int) else size
        return table(*shape) if np.prod(shape) > LARGE else zeros(*size, **options)

    def repeated_in_file(self: Tensor, *times: int) -> Tensor:
        # no row is read before its client has trained
        return table(times[0], self.numel()) if self.numel() * times[0] > LARGE else repeat(self, *times)

    with mock.patch.object(torch, "zeros", zeros_in_file), mock.patch.object(Tensor, "repeat", repeated_in_file):
        yield


def server_of(config: RunConfig, data: RunData, options: argparse.Namespace, device: str, lines: csv.writer) -> Any:
    """Return FL-Simulator's server with FlatFed's initial weights and client sampling."""
    network = importlib.import_module("models").client_model
    kind = getattr(importlib.import_module("server"), options.method)
    began = time.monotonic()

    class Ours(kind):
        def _activate_clients_(self, t: int) -> np.ndarray:
            return active_clients(config.sampling, options.total_client, config.seed, t)

        def _test_(self, t: int, selected_clients: np.ndarray) -> None:
            loss, accuracy = self._validate_((self.datasets.test_x, self.datasets.test_y))
            self.test_perf[t] = [loss, accuracy]
            lines.writerow((t + 1, f"{accuracy:.4f}", f"{time.monotonic() - began:.0f}"))

    model, initial = weights.initial_model(config)
    tensors = Layout.of(model).views(initial)
    torch.manual_seed(options.seed)
    np.random.seed(options.seed)
    initial_model = network(options.model, config.dataset.classes)
    with torch.no_grad():
        for name, tensor in initial_model.named_parameters():
            tensor.copy_(tensors[name.removeprefix("model.")])
    return Ours(
        device=torch.device(device),
        model_func=lambda: network(options.model, config.dataset.classes),
        init_model=initial_model,
        init_par_list=torch.cat([tensor.detach().reshape(-1) for tensor in initial_model.parameters()]),
        datasets=data,
        method=options.method,
        args=options,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a clone of FL-Simulator")
    parser.add_argument("--run", type=Path, required=True, help="output of `flatfed describe`")
    parser.add_argument("--dataset", type=Path, required=True, help="folder of CIFAR-10")
    parser.add_argument("--partition", type=Path, required=True, help="partition of the run")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--out", type=Path, required=True, metavar="CSV")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    sys.path.insert(0, str(options.folder))
    config = RunConfig.of_json(json.loads(options.run.read_text(encoding="utf-8")), str(options.run))
    clients = config.partition.clients
    try:
        theirs = values(config, clients, options.rounds, options.out.with_suffix(".out"))
    except DataError as error:
        parser.error(f"{options.run}: {error}")
    data = RunData(config.dataset, dataset.load(options.dataset), partition.load(options.partition))
    with (
        tempfile.TemporaryDirectory(dir=options.out.parent) as folder,
        tables_in(Path(folder)),
        open(options.out, "w", newline="", encoding="utf-8", buffering=1) as file,
    ):
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(("round", "test_accuracy", "seconds"))
        theirs.out_file = str(Path(folder) / "out")
        server_of(config, data, theirs, options.device, lines).train()


if __name__ == "__main__":
    main()
