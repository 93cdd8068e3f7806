"""Seconds of Hessian-vector products of ResNet-18 (3 x 32 x 32), compared with PyHessian and with gradients; JSON.

    PYTHONPATH=src python benchmarks/hessian.py [--images 256] [--repeats 3] [--device cuda]

``gradient``: a gradient on all images; ``our_gradient``: the same of FlatFed's model, with small convolutions as
products of matrices; ``pyhessian``: a product by PyHessian; ``single``: a product by FlatFed; ``block``: one of a block
of products on the same graphs. The jobs take turns, and ``seconds`` are medians.
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

from flatfed import models
from flatfed.analysis.hessian.vector_products import HessianProducts
from flatfed.engine.job.memory import reuse_memory
from flatfed.engine.speed import products

SHAPE, MICRO_BATCH, BLOCK = (3, 32, 32), 128, 4


def measure(options: argparse.Namespace) -> dict:
    device = torch.device(options.device)
    generator = torch.Generator().manual_seed(0)
    model = models.build("resnet18_gn", SHAPE, 10, {}).eval()
    row = models.initial_weights(model, generator)
    model.to(device)
    ours = products.with_products(model, SHAPE)
    for module in (model, ours):
        vector_to_parameters(row.to(device), module.parameters())
    images = torch.randn(options.images, *SHAPE, generator=generator).to(device)
    images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (options.images,), generator=generator).to(device)
    batches = list(zip(images.split(MICRO_BATCH), labels.split(MICRO_BATCH), strict=True))
    hessian_of = HessianProducts(ours, cross_entropy, batches, BLOCK)
    vectors = torch.randn(BLOCK, hessian_of.size, generator=generator).to(device)
    pyhessian = hessian(model, cross_entropy, dataloader=batches, cuda=device.type == "cuda")

    def gradient(model: nn.Module) -> list[Tensor]:
        parameters = list(model.parameters())
        total = [torch.zeros_like(parameter) for parameter in parameters]
        for inputs, targets in batches:
            gradients = torch.autograd.grad(cross_entropy(model(inputs), targets), parameters)
            torch._foreach_add_(total, gradients, alpha=len(inputs) / options.images)
        return total

    def loop() -> Tensor:
        parts = zip(vectors[0].split(hessian_of.sizes), model.parameters(), strict=True)
        product = pyhessian.dataloader_hv_product([part.view_as(parameter) for part, parameter in parts])[1]
        return torch.cat([part.reshape(-1) for part in product])

    jobs = {
        "gradient": (lambda: gradient(model), 1),
        "our_gradient": (lambda: gradient(ours), 1),
        "pyhessian": (loop, 1),
        "single": (lambda: hessian_of(vectors[:1])[0], 1),
        "block": (lambda: hessian_of(vectors)[0], BLOCK),
    }
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    results: dict[str, Tensor] = {}
    for turn in range(options.repeats + 1):
        for name, (job, count) in jobs.items():
            seconds, results[name] = timed(job, device)
            if turn:  # the first turn is a warm-up
                taken[name].append(seconds / count)
    length = results["pyhessian"].norm()
    difference = max(float((results[name] - results["pyhessian"]).norm() / length) for name in ("single", "block"))
    if difference > 1e-3:
        raise SystemExit(f"the products differ by {difference:.1e} of their length")
    medians = {name: statistics.median(values) for name, values in taken.items()}
    return {
        **vars(options),
        "parameters": hessian_of.size,
        "torch": torch.__version__,
        "seconds": {name: round(value, 4) for name, value in medians.items()},
        "gradients a product": {name: round(medians[name] / medians["gradient"], 2) for name in list(jobs)[2:]},
        "block, times PyHessian's products per second": round(medians["pyhessian"] / medians["block"], 2),
        "largest relative difference": difference,
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "peak_device_memory_bytes": torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None,
    }


def timed(job: Callable[[], Tensor], device: torch.device) -> tuple[float, Tensor]:
    """Return the seconds of ``job`` and its result."""
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    wait()
    began = time.perf_counter()
    result = job()
    wait()
    return time.perf_counter() - began, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    reuse_memory()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Using backward\\(\\) with create_graph=True")
        print(json.dumps(measure(options), indent=1))


if __name__ == "__main__":
    main()
