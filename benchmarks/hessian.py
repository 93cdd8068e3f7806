"""Seconds of a Hessian-vector product: blocks on one graph, PyHessian's loop, and gradients; JSON on standard output.

    PYTHONPATH=src python benchmarks/hessian.py [--model resnet18_gn] [--images 256] [--repeats 3] [--device cuda]

All take turns in one process on the same random images, in the same micro-batches, so that what else the machine does
meets them alike; every turn measures each once, and ``seconds`` are medians. ``gradient`` is one gradient of the loss
on all the images, without a graph of its own; ``pyhessian`` one product by PyHessian's loop over a data loader; both of
the model as it is. ``single`` is one product by itself, ``block`` one of a block that shares the graphs, both by
``flatfed.analysis.hessian.vector_products`` and, as in a Hessian of ours, of the model with small convolutions as
products (``flatfed.engine.speed.products``); ``our_gradient`` is a gradient of that one. The products must agree.
``peak_memory_bytes`` is that of the whole process.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from pyhessian import hessian
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import vector_to_parameters

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from flatfed import models  # noqa: E402
from flatfed.analysis.hessian.vector_products import Products  # noqa: E402
from flatfed.engine.memory.available import reuse_memory  # noqa: E402
from flatfed.engine.speed import products  # noqa: E402

SHAPES = {"cnn_tiny": (1, 8, 8), "cnn": (3, 32, 32), "resnet18_gn": (3, 32, 32)}


def measure(options: argparse.Namespace) -> dict:
    """Return the median seconds of each and what follows from them."""
    device = torch.device(options.device)
    generator = torch.Generator().manual_seed(0)
    model = models.build(options.model, SHAPES[options.model], 10, {}).eval()
    row = models.initial_weights(model, generator)
    model.to(device)
    ours = products.with_products(model, SHAPES[options.model])
    for one in (model, ours):
        vector_to_parameters(row.to(device), one.parameters())
    images = torch.randn(options.images, *SHAPES[options.model], generator=generator).to(device)
    images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (options.images,), generator=generator).to(device)
    size = options.micro_batch
    batches = list(zip(images.split(size), labels.split(size), strict=True))
    hessian_of = Products(ours, cross_entropy, batches, options.block)
    vectors = torch.randn(options.block, hessian_of.size, generator=generator).to(device)
    theirs = hessian(model, cross_entropy, dataloader=batches, cuda=device.type == "cuda")

    def gradient(model: nn.Module) -> list[Tensor]:
        parameters = list(model.parameters())
        total = [torch.zeros_like(parameter) for parameter in parameters]
        for inputs, targets in batches:
            found = torch.autograd.grad(cross_entropy(model(inputs), targets), parameters)
            torch._foreach_add_(total, found, alpha=len(inputs) / options.images)
        return total

    def loop() -> Tensor:
        parts = zip(vectors[0].split(hessian_of.sizes), model.parameters(), strict=True)
        found = theirs.dataloader_hv_product([part.view_as(parameter) for part, parameter in parts])[1]
        return torch.cat([part.reshape(-1) for part in found])

    jobs = {
        "gradient": (lambda: gradient(model), 1),
        "our_gradient": (lambda: gradient(ours), 1),
        "pyhessian": (loop, 1),
        "single": (lambda: hessian_of(vectors[:1])[0], 1),
        "block": (lambda: hessian_of(vectors)[0], options.block),
    }
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    seen: dict[str, Tensor] = {}
    for turn in range(options.repeats + 1):
        for name, (job, count) in jobs.items():
            seconds, seen[name] = timed(job, device)
            if turn:  # the first is to warm up
                taken[name].append(seconds / count)
    length = seen["pyhessian"].norm()
    worst = max(float((seen[name] - seen["pyhessian"]).norm() / length) for name in ("single", "block"))
    if worst > 1e-3:
        raise SystemExit(f"the products differ by {worst:.1e} of their length")
    middle = {name: statistics.median(values) for name, values in taken.items()}
    return {
        **vars(options),
        "parameters": hessian_of.size,
        "torch": torch.__version__,
        "seconds": {name: round(value, 4) for name, value in middle.items()},
        "gradients a product": {name: round(middle[name] / middle["gradient"], 2) for name in list(jobs)[2:]},
        "block, times PyHessian's products per second": round(middle["pyhessian"] / middle["block"], 2),
        "largest relative difference": worst,
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "peak_device_memory_bytes": torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None,
    }


def timed(job: Callable[[], Tensor], device: torch.device) -> tuple[float, Tensor]:
    """Return the seconds that ``job`` takes, with what it returns."""
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    wait()
    began = time.perf_counter()
    found = job()
    wait()
    return time.perf_counter() - began, found


def main() -> None:
    """Parse the arguments, measure, print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet18_gn", choices=SHAPES)
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--micro-batch", type=int, default=128)
    parser.add_argument("--block", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    reuse_memory()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Using backward\\(\\) with create_graph=True")
        print(json.dumps(measure(options), indent=1))


if __name__ == "__main__":
    main()
