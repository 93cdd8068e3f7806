"""Trial of the forms of a GPU round on path3-200's size; JSON after every item.

    python benchmarks/stacked_trial.py --device cuda --budget 540 --out OUT
    python benchmarks/stacked_trial.py --device cpu --clients 2 --steps 2 --out OUT      a rehearsal
"""

from __future__ import annotations

import argparse
import cProfile
import io
import json
import os
import pstats
import statistics
import subprocess
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "benchmarks")]

import torch
from workloads import WORKLOADS

from flatfed.engine.executors import Batch, Sequential
from flatfed.engine.job import assembly
from flatfed.engine.job.machine import machine, pick_device, set_up
from flatfed.engine.speed import live, row_layers
from flatfed.engine.weights import initial_model
from flatfed.files import write_whole

FORMS = {
    "torch": "",
    "columns": "columns fold norm inference_norm aside descend",
    "one stream": "columns fold implicit norm inference_norm descend",
    "plain update": "columns fold implicit norm inference_norm aside",
    "triton": "columns fold implicit norm inference_norm aside descend",
}
# side, channels, outputs, kernel, stride, border; and how often ResNet-18 has it
LAYERS = {
    "stem": (32, 3, 64, 7, 2, 3, 1),
    "layer1": (8, 64, 64, 3, 1, 1, 4),
    "layer2.0": (8, 64, 128, 3, 2, 1, 1),
    "layer2": (4, 128, 128, 3, 1, 1, 3),
    "layer3.0": (4, 128, 256, 3, 2, 1, 1),
    "layer3": (2, 256, 256, 3, 1, 1, 3),
    "layer4.0": (2, 256, 512, 2, 2, 0, 1),
    "layer4": (1, 512, 512, 1, 1, 0, 3),
    "shortcut2": (8, 64, 128, 1, 2, 0, 1),
}
PRODUCT_CONFIGS = [(64, 64, 32, 4, 3), (64, 64, 64, 4, 3), (128, 64, 32, 4, 3), (128, 64, 32, 8, 3), (64, 32, 32, 4, 4), (128, 128, 32, 8, 3), (64, 64, 32, 4, 4)]
GRADIENT_CONFIGS = [(64, 64, 32, 4, 3), (64, 64, 32, 4, 4), (64, 64, 64, 4, 3), (64, 128, 32, 8, 3), (128, 64, 32, 8, 3), (64, 64, 32, 8, 3), (32, 64, 32, 4, 3)]


class Trial:
    def __init__(self, options):
        self.options, self.device = options, pick_device(options.device)
        self.cuda = self.device.type == "cuda"
        set_up(1)
        self.began = time.monotonic()
        self.report = {**machine(self.device, 1), "items": {}, "seconds": {}}
        workload = WORKLOADS["W1"].but(clients=options.clients, total=200, steps=options.steps)
        self.workload = workload
        self.data = workload.data()

    def left(self):
        return self.options.budget - (time.monotonic() - self.began)

    def item(self, name, work):
        if self.options.items and name.split(":")[0] not in self.options.items or self.left() <= 0:
            return
        began = time.monotonic()
        try:
            self.report["items"][name] = work()
        except Exception as error:
            traceback.print_exc()
            self.report["items"][name] = {"failed": f"{type(error).__name__}: {error}"[:600]}
        if self.cuda:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        self.report["seconds"][name] = round(time.monotonic() - began, 2)
        with write_whole(Path(self.options.out) / "trial.json", "w") as file:
            json.dump(self.report, file, indent=1)
        text = json.dumps(self.report["items"][name])
        print(f"[{time.monotonic() - self.began:.0f} s] {name}: {text[:700]}", flush=True)

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()

    def simulation(self, executor, algorithm, precision="float32", workload=None, **changes):
        data = self.data if workload is None else workload.data()
        description = (workload or self.workload).description(algorithm, precision, **changes)
        return assembly.simulation(description, *data, self.device, executor)

    def seconds_of(self, work, times):
        took = []
        for _ in range(times):
            self.wait()
            began = time.perf_counter()
            work()
            self.wait()
            took.append(time.perf_counter() - began)
        return took

    # -- items
    def peaks(self):
        if not self.cuda:
            return {}
        values = {}
        a = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
        b = torch.empty_like(a)
        b.copy_(a)
        took = statistics.median(self.seconds_of(lambda: b.copy_(a), 5))
        values["copy_TB/s"] = 2 * a.numel() / took / 1e12
        del a, b
        for dtype in (torch.float32, torch.bfloat16):
            x, y = (torch.randn(8192, 8192, device="cuda", dtype=dtype) for _ in range(2))
            x @ y
            took = statistics.median(self.seconds_of(lambda: x @ y, 5))
            values[f"product_{dtype}_TFLOP/s"] = 2 * 8192**3 / took / 1e12
        tiny = torch.zeros(64, device="cuda")
        for branches in (1, 10):
            streams = [torch.cuda.Stream() for _ in range(branches)]
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                main = torch.cuda.current_stream()
                for stream in streams:
                    stream.wait_stream(main)
                    with torch.cuda.stream(stream):
                        for _ in range(6000 // branches):
                            tiny.add_(1)
                for stream in streams:
                    main.wait_stream(stream)
            graph.replay()
            values[f"us_per_node_{branches}_branches"] = min(self.seconds_of(graph.replay, 3)) / 6000 * 1e6
        return values

    def rounds(self, executor, algorithm, precision, form=None, times=5, profile=False, **changes):
        if form is not None:
            row_layers.FORMS.clear()
            row_layers.FORMS.update(FORMS.get(form, form).split())
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
        run = self.simulation(executor, algorithm, precision, **changes)
        first = self.seconds_of(run.advance, 1)[0]
        took = self.seconds_of(run.advance, times)
        values = {"median": statistics.median(took), "rounds": took, "first": first}
        if self.cuda:
            values["reserved_MiB"] = torch.cuda.max_memory_reserved() >> 20
        if profile:
            values["kernels"] = self.kernels(run.advance)
            values["host"] = self.host(run.advance)
        return values

    def kernels(self, work):
        """Return the kernels of ``work`` by total time: [name, count, microseconds]."""
        if not self.cuda:
            return {}
        from torch.profiler import ProfilerActivity, profile

        self.wait()
        with profile(activities=[ProfilerActivity.CUDA]) as prof:
            work()
            self.wait()
        total, count = Counter(), Counter()
        for event in prof.events():
            duration = event.device_time_total if hasattr(event, "device_time_total") else event.cuda_time_total
            total[event.name] += duration
            count[event.name] += 1
        rows = [[name[:150], count[name], round(microseconds)] for name, microseconds in total.most_common(45)]
        return {"count": sum(count.values()), "us": round(sum(total.values())), "top": rows}

    def host(self, work):
        profiler = cProfile.Profile()
        profiler.runcall(work)
        self.wait()
        text = io.StringIO()
        pstats.Stats(profiler, stream=text).sort_stats("cumulative").print_stats(35)
        return [line[:130] for line in text.getvalue().splitlines()[4:] if line.strip()]

    def errors(self, precision):
        """Relative norms of the differences from Sequential's float64 gradient."""
        import torch.nn as nn

        rows, images = (10, 50) if self.cuda else (2, 4)
        algorithm_text = self.workload.description("fedavg", precision)
        from flatfed import algorithms

        algorithm = algorithms.build("fedavg", {})
        draws = torch.Generator().manual_seed(0)
        pixels = torch.randn(rows, images, 3, 32, 32, generator=draws)
        labels = torch.randint(10, (rows, images), generator=draws)
        weight = torch.full((rows, images), 1 / images)
        model, initial = initial_model(algorithm_text)
        noise = 0.01 * torch.randn(rows, len(initial), generator=draws)

        def gradient(kind, precision, row_form):
            dtype = {"float64": torch.float64}.get(precision, torch.float32)
            weights = live.weights(model, initial, algorithm, (3, 32, 32), self.device, dtype, False, row_form)
            full = torch.stack([initial + n for n in noise])
            rows_ = []
            for row in full:  # dead taps are a multiple of the initial ones: keep the initial
                kept = weights.taps.expand(weights.taps.reduce(initial.double()))
                mixed = torch.where(weights.taps._mask(torch.device("cpu")), kept, row.double())
                rows_.append(weights.taps.reduce(mixed))
            w = torch.stack(rows_).to(self.device, dtype)
            layer = torch.bfloat16 if precision == "bfloat16" else None
            executor = kind(weights.model, weights.layout, layer_dtype=layer)
            batch = Batch(pixels.to(self.device, dtype), labels.to(self.device), weight.to(self.device, dtype), [])
            losses, gradients = executor(w, batch)
            views = [weights.layout.views(row) for row in gradients.double().cpu()]
            return {name: torch.stack([v[name] for v in views]) for name in views[0]}

        from flatfed.engine.executors import EXECUTORS

        exact = gradient(Sequential, "float64", False)

        def difference(values):
            wrong = sum(float((values[k] - exact[k]).square().sum()) for k in exact)
            return (wrong / sum(float(v.square().sum()) for v in exact.values())) ** 0.5

        result = {"sequential": difference(gradient(Sequential, precision, False))}
        for form, parts in FORMS.items():
            row_layers.FORMS.clear()
            row_layers.FORMS.update(parts.split())
            if self.cuda or not parts:
                result[form] = difference(gradient(EXECUTORS["products"], precision, True))
        return result

    def tensors(self, name, dtype):
        side, channels, outputs, kernel, stride, pad, _ = LAYERS[name]
        rows, batch = (self.options.clients, 50) if self.cuda else (2, 2)
        border = (pad,) * 4
        window = row_layers.Window((kernel, kernel), (stride, stride), (pad, pad))
        size = window.output_size((side, side), border)
        make = {"device": self.device, "dtype": dtype}
        x = torch.randn(rows, batch, side, side, channels, **make)
        flat = torch.randn(rows, outputs * kernel * kernel * channels + 64, **make)
        k = flat[:, :-64].view(rows, outputs, kernel * kernel, channels)
        g = torch.randn(rows, batch, *size, outputs, **make)
        return x, k, g, window, size, border

    def layer_calls(self, name, dtype):
        """Yield (label, call) for the layer."""
        from flatfed.engine.speed import kernels as K

        x, k, g, window, size, _ = self.tensors(name, dtype)
        stride = window.stride[0]
        row_layers.FORMS.update(FORMS["triton"].split())
        flat, by_position = row_layers.padded(k.flatten(2)), g.flatten(1, 3)
        columns = row_layers.columns_of(x, window, size)
        yield "columns", lambda: K.columns(x, window, size, columns.shape[2])
        yield "forward", lambda: torch.bmm(columns, flat.transpose(1, 2))
        yield "kernels", lambda: row_layers.product_over_positions(by_position, columns)
        yield "kernels_plain", lambda: torch.bmm(by_position.transpose(1, 2), columns)
        if name != "stem":
            by_entry = torch.bmm(by_position, k.flatten(2))
            yield "images", lambda: torch.bmm(by_position, k.flatten(2))
            yield "fold", lambda: K.fold(by_entry, window, size, tuple(x.shape))
            yield "implicit", lambda: K.implicit_product(x, k, window, size, False)
            if stride == 1:
                yield "implicit_images", lambda: K.implicit_product(g, k, window, x.shape[2:4], True)

    def microseconds(self, call, repeats=10):
        call()
        self.wait()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(repeats):
                call()
        graph.replay()
        return min(self.seconds_of(graph.replay, 5)) / repeats * 1e6

    def layer(self, name, dtype):
        if not self.cuda:
            return {}
        times = {}
        for label, call in self.layer_calls(name, dtype):
            try:
                times[label] = round(self.microseconds(call), 1)
            except Exception as error:
                times[label] = f"{type(error).__name__}"
                torch.cuda.synchronize()
        return times

    def evaluation(self):
        from flatfed.engine.speed.recording import CudaGraphs, RecordedScore

        values = {}
        for form in ("torch", "triton"):
            row_layers.FORMS.clear()
            row_layers.FORMS.update(FORMS[form].split())
            for size in (1000,):
                run = self.simulation("products", "fedavg", evaluation={"every": 1, "sets": ["test"], "batch_size": size})
                row, plain = run.server["w"][0], getattr(run.evaluate.score, "plain", run.evaluate.score)
                images = run.evaluate.images
                eager = plain(row, images)
                key = f"{form} {size}"
                values[f"{key} eager"] = min(self.seconds_of(lambda: plain(row, images), 3))
                if self.cuda:
                    again = run.evaluate.score(row, images)
                    values[f"{key} graph"] = min(self.seconds_of(lambda: run.evaluate.score(row, images), 5))
                    values[f"{key} same bytes"] = all(torch.equal(a, b) for a, b in zip(eager, again))
                    values[f"{key} loss"] = float(eager[0])
                    if size == 1000:
                        values[f"{key} kernels"] = self.kernels(lambda: run.evaluate.score(row, images))
        return values

    def same_bytes(self, form, precision="float32"):
        row_layers.FORMS.clear()
        row_layers.FORMS.update(FORMS[form].split())
        ends = []
        for _ in range(2):
            run = self.simulation("products", "fedsmoo", precision)
            for _ in range(3):
                run.advance()
            ends.append(run.server["w"].clone())
        return {"same": torch.equal(*ends), "finite": bool(ends[0].isfinite().all())}

    def counts(self, form):
        """Rounds with 2 to 23 clients, each evaluated."""
        row_layers.FORMS.clear()
        row_layers.FORMS.update(FORMS[form].split())
        changes = {
            "sampling": {"scheme": "bernoulli", "fraction": 0.05, "sampler": "keyed"},
            "evaluation": {"every": 1, "sets": ["test"], "batch_size": 1000},
            "rounds": 800,
        }
        run = self.simulation("products", "fedavg", **changes)
        lines = []
        for _ in range(40 if self.cuda else 2):
            known = len(run.local_update.steps)
            took = self.seconds_of(run.advance, 1)[0]
            lines.append([len(run.sample()), len(run.local_update.steps) - known, round(took, 4)])
        return {"clients_new_seconds": lines, "host": self.host(run.advance)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--budget", type=float, default=540)
    parser.add_argument("--out", required=True)
    parser.add_argument("--items", nargs="+")
    options = parser.parse_args()
    Path(options.out).mkdir(parents=True, exist_ok=True)
    trial = Trial(options)
    trial.item("errors:float32", lambda: trial.errors("float32"))
    for form in ("triton", "one stream", "plain update", "columns"):
        for algorithm in ("fedavg", "fedsmoo", "fedadam", "fedsam"):
            if form == "triton" or algorithm == "fedavg":
                profile = form == "triton" and algorithm in ("fedavg", "fedsmoo")
                run = lambda: trial.rounds("products", algorithm, "float32", form, profile=profile)
                trial.item(f"products:{form} {algorithm}", run)
    trial.item("counts:triton", lambda: trial.counts("triton"))
    for executor in ("products", "graph", "stacked"):
        small = WORKLOADS["W2-32"].but(clients=options.clients)
        trial.item(f"cnn:{executor}", lambda: trial.rounds(executor, "fedavg", "float32", "triton", workload=small))
    for name in LAYERS:
        trial.item(f"layers:{name}", lambda: trial.layer(name, torch.float32))
    trial.item("evaluation", trial.evaluation)
    trial.item("same_bytes:triton", lambda: trial.same_bytes("triton"))
    for algorithm in ("fedavg", "fedsmoo"):
        trial.item(f"bfloat16:triton {algorithm}", lambda: trial.rounds("products", algorithm, "bfloat16", "triton"))
    trial.item("errors:bfloat16", lambda: trial.errors("bfloat16"))


if __name__ == "__main__":
    main()
