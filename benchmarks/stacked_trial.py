"""Trial of the executor `products` on a GPU: errors, seconds, kernels, repeatability; JSON after every item.

    python benchmarks/stacked_trial.py --device cuda --budget 540 --out OUT
    python benchmarks/stacked_trial.py --device cpu --clients 2 --steps 2 --out OUT      a rehearsal

A round has the size of path3-200: ResNet-18, 10 of 200 clients, 25 steps of 50 random images. No item starts after
``--budget`` seconds. Needs torch, triton, numpy and safetensors only.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "benchmarks")]

import numpy as np
import torch
from phases import peaks
from torch import Tensor
from workloads import WORKLOADS, Workload

from flatfed import algorithms
from flatfed.data import manifest
from flatfed.engine.executors import EXECUTORS, Batch
from flatfed.engine.job import assembly
from flatfed.engine.job.machine import machine, pick_device, set_up
from flatfed.engine.precision import STATE_DTYPES
from flatfed.engine.simulation import Simulation
from flatfed.engine.speed import live
from flatfed.engine.weights import initial_model
from flatfed.files import digest_arrays, write_whole

VARYING = {"scheme": "bernoulli", "fraction": 0.05, "sampler": "keyed"}
EVALUATED = {"every": 1, "sets": ["test"], "batch_size": 1000}
KERNELS = 40  # in the report
ROUNDS = 800  # of the whole run


class Trial:
    """The measurements; ``report`` is written to ``options.out`` after each."""

    def __init__(self, options: argparse.Namespace):
        self.options, self.device, self.began = options, pick_device(options.device), time.monotonic()
        self.cuda = self.device.type == "cuda"
        set_up(1)
        self.report: dict[str, Any] = {**machine(self.device, 1), "items": {}, "seconds": {}}
        sizes = {"clients": options.clients, "steps": options.steps}
        self.workloads = {"resnet": WORKLOADS["W1"].but(total=200, **sizes), "cnn": WORKLOADS["W2-32"].but(**sizes)}

    def item(self, name: str, work: Callable[[], Any]) -> None:
        chosen = not self.options.items or name.split()[0] in self.options.items
        if not chosen or time.monotonic() - self.began > self.options.budget:
            return
        began = time.monotonic()
        try:
            result = work()
        except Exception as error:  # measure the other items
            traceback.print_exc()
            result = {"failed": f"{type(error).__name__}: {error}"[:500]}
        if self.cuda:
            torch.cuda.empty_cache()
        self.report["items"][name] = result
        self.report["seconds"][name] = round(time.monotonic() - began, 1)
        with write_whole(self.options.out / "trial.json", "w") as file:
            json.dump(self.report, file, indent=1)
        print(f"{time.monotonic() - self.began:.0f} s  {name}: {json.dumps(result)[:600]}", flush=True)

    def wait(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()

    def seconds(self, work: Callable[[], Any], times: int) -> list[float]:
        taken = []
        for _ in range(times):
            self.wait()
            began = time.perf_counter()
            work()
            self.wait()
            taken.append(time.perf_counter() - began)
        return taken

    def simulation(
        self, workload: Workload, executor: str, algorithm: str, precision: str, **changes: Any
    ) -> Simulation:
        config = workload.config(algorithm, precision, **changes)
        return assembly.simulation(config, *workload.data(), self.device, executor)

    def rounds(self, model: str, executor: str, algorithm: str, precision: str, times: int = 5) -> dict[str, Any]:
        """Seconds of rounds without evaluation, the first with its recording; memory; kernels by total time."""
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
        run = self.simulation(self.workloads[model], executor, algorithm, precision)
        (first,) = self.seconds(run.advance, 1)
        taken = self.seconds(run.advance, times)
        result = {"median": statistics.median(taken), "rounds": taken, "first": first}
        if self.cuda:
            result |= {"reserved_mib": torch.cuda.max_memory_reserved() >> 20, "kernels": self.kernels(run.advance)}
        return result

    def kernels(self, work: Callable[[], Any]) -> dict[str, Any]:
        """Return the kernels of ``work``: number, and name, number, microseconds of the longest."""
        from torch.profiler import ProfilerActivity, profile

        total, number = Counter(), Counter()
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            work()
            self.wait()
        for event in profiler.events():
            total[event.name] += event.device_time_total
            number[event.name] += 1
        longest = [[name[:120], number[name], round(time)] for name, time in total.most_common(KERNELS)]
        return {"number": number.total(), "microseconds": round(total.total()), "longest": longest}

    def errors(self, model: str, precision: str) -> dict[str, float]:
        """Return the relative errors of gradients: the norm of their difference from Sequential's in float64."""
        workload, algorithm = self.workloads[model], algorithms.build("fedavg", {})
        rows, images = (10, 50) if self.cuda else (2, 4)
        network, initial = initial_model(workload.config("fedavg"))
        draws = torch.Generator().manual_seed(0)
        noise = 0.01 * torch.randn(rows, len(initial), generator=draws)
        pixels = torch.randn(rows, images, *workload.shape, generator=draws)
        labels = torch.randint(workload.classes, (rows, images), generator=draws).to(self.device)

        def gradient(executor: str, precision: str) -> Tensor:
            kind, dtype = EXECUTORS[executor], STATE_DTYPES[precision]
            settings = workload.shape, self.device, dtype, False, kind.records_steps
            weights = live.weights(network, initial, algorithm, *settings)
            full = initial + noise
            if isinstance(weights, live.LiveWeights):  # rows keep the initial values of weights without gradient
                dead = weights.taps._mask(torch.device("cpu"))
                full = torch.stack([weights.taps.reduce(torch.where(dead, initial, row)) for row in full])
            layer_dtype = torch.bfloat16 if precision == "bfloat16" else None
            weight = torch.full((rows, images), 1 / images)
            batch = Batch(pixels.to(self.device, dtype), labels, weight.to(self.device, dtype), [])
            layers = kind(weights.model, weights.layout, layer_dtype=layer_dtype)
            gradients = layers(full.to(self.device, dtype), batch)[1].double()
            return torch.cat([values.flatten(1) for values in weights.layout.views(gradients).values()], dim=1)

        exact = gradient("sequential", "float64")
        return {
            name: float((gradient(name, precision) - exact).norm() / exact.norm())
            for name in ("sequential", "products")
        }

    def same_bytes(self, algorithm: str, precision: str) -> bool:
        """Return whether three rounds twice give the same model."""
        ends = []
        for _ in range(2):
            run = self.simulation(self.workloads["resnet"], "products", algorithm, precision)
            for _ in range(3):
                run.advance()
            ends.append(run.server["w"].clone())
        return torch.equal(*ends) and bool(ends[0].isfinite().all())

    def evaluation(self) -> dict[str, Any]:
        """Seconds of an evaluation, eager and recorded, and whether both give the same bytes."""
        run = self.simulation(self.workloads["resnet"], "products", "fedavg", "float32", evaluation=EVALUATED)
        row, images, recorded = run.server["w"][0], run.evaluate.images, run.evaluate.score
        plain = getattr(recorded, "plain", recorded)
        same = [torch.equal(*pair) for pair in zip(plain(row, images), recorded(row, images), strict=True)]
        times = 5 if self.cuda else 1
        scores = {"eager": plain, "recorded": recorded}
        taken = {
            name: min(self.seconds(lambda score=score: score(row, images), times)) for name, score in scores.items()
        }
        return {**taken, "same_bytes": all(same)}

    def varying_clients(self) -> list[list[float]]:
        """Return (clients, new recordings, seconds) of evaluated rounds whose numbers of clients vary."""
        changes = {"sampling": VARYING, "evaluation": EVALUATED, "rounds": ROUNDS}
        run, lines = self.simulation(self.workloads["resnet"], "products", "fedavg", "float32", **changes), []
        for _ in range(40 if self.cuda else 1):
            clients, before = len(run.sample()), len(run.local_update.steps)
            (taken,) = self.seconds(run.advance, 1)
            lines.append([clients, len(run.local_update.steps) - before, round(taken, 4)])
        return lines

    def whole_run(self) -> dict[str, float]:
        """Seconds of a process that trains 800 rounds of FedAvg with evaluations, and of its run."""
        workload, folder = self.workloads["resnet"], self.options.out / "whole_run"
        data, partition = workload.data()
        (folder / "data").mkdir(parents=True, exist_ok=True)
        arrays = {"images": data.images, "labels": data.labels}
        for name, values in arrays.items():
            np.save(folder / "data" / f"{name}.npy", values)
        about = {"name": "made-up", "classes": workload.classes, "shape": list(workload.shape)}
        sizes = {"train": data.train, "test": data.test, "bytes": data.images.nbytes, "digest": digest_arrays(**arrays)}
        settings = manifest.Manifest(**about, **sizes, domains=None, source={"source": "made up"})
        manifest.write(folder / "data" / manifest.NAME, settings)
        spec = {"scheme": "iid", "clients": workload.total, "seed": 1, "dataset_digest": sizes["digest"]}
        values = {name: getattr(partition, name) for name in ("indices", "offsets", "test")}
        labels = np.split(data.labels[partition.indices], partition.offsets[1:-1])
        counts = np.stack([np.bincount(part, minlength=workload.classes) for part in labels])
        np.savez(folder / "partition.npz", **values, class_counts=counts, spec=np.array(json.dumps(spec)))
        changes = {"sampling": VARYING, "evaluation": EVALUATED, "rounds": ROUNDS if self.cuda else 2}
        changes["partition"] = {"scheme": "iid", "clients": workload.total}
        run = json.dumps(workload.config("fedavg", **changes).as_json())
        command = [sys.executable, "-m", "flatfed", "train", "--run", run, "--device", self.device.type]
        paths = {"dataset": "data", "partition": "partition.npz", "out": "run"}
        command += [word for option, path in paths.items() for word in (f"--{option}", folder / path)]
        began = time.monotonic()
        packages = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": packages})
        record = json.loads((folder / "run/run.json").read_text())
        return {"process": time.monotonic() - began, "run": record["seconds"], "rounds": record["rounds_done"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--budget", type=float, default=540, help="seconds after which no item starts")
    parser.add_argument("--out", type=Path, required=True, help="folder of trial.json")
    parser.add_argument("--items", nargs="+", help="first words of items, default: all")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    trial = Trial(options)
    trial.item("same_bytes", lambda: {name: trial.same_bytes(name, "float32") for name in ("fedavg", "fedsmoo")})
    for model in ("resnet", "cnn"):
        trial.item(f"errors {model} float32", partial(trial.errors, model, "float32"))
        for algorithm in ("fedavg", "fedsmoo"):
            trial.item(f"rounds {model} {algorithm}", partial(trial.rounds, model, "products", algorithm, "float32"))
    trial.item("evaluation", trial.evaluation)
    trial.item("varying_clients", trial.varying_clients)
    trial.item("whole_run", trial.whole_run)
    for algorithm in ("fedsam", "fedadam"):
        trial.item(f"rounds resnet {algorithm}", partial(trial.rounds, "resnet", "products", algorithm, "float32"))
    trial.item("errors resnet bfloat16", partial(trial.errors, "resnet", "bfloat16"))
    for algorithm in ("fedavg", "fedsmoo"):
        work = partial(trial.rounds, "resnet", "products", algorithm, "bfloat16")
        trial.item(f"rounds resnet {algorithm} bfloat16", work)
    side, numbers = (8192, 1 << 28) if trial.cuda else (512, 1 << 20)
    trial.item("peaks", partial(peaks, trial.device, trial.wait, side, numbers, "float32"))


if __name__ == "__main__":
    main()
