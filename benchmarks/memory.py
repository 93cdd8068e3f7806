"""CPU seconds of a training step's gradient with and without what is freed being kept (flatfed.engine.memory).

    python benchmarks/memory.py [--repeats 5] [cnn cnn_tiny resnet18_gn]

What the C library was told cannot be taken back, so every measurement is a process of its own; the two ways take
turns. One thread, batches of 50, float32; prints the median milliseconds of a step and of a forward pass as JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

SHAPES = {"cnn_tiny": (1, 8, 8), "cnn": (3, 32, 32), "resnet18_gn": (3, 32, 32)}
BATCH, SECONDS = 50, 4.0


def measure(name: str, keep: bool) -> dict[str, float]:
    """Return the milliseconds of a step and of a forward pass of the model ``name``, medians over some seconds."""
    import torch
    from torch.nn.functional import cross_entropy

    from flatfed import models
    from flatfed.engine.memory.available import reuse_memory

    torch.set_num_threads(1)
    if keep:
        reuse_memory()
    torch.manual_seed(1)
    model = models.build(name, SHAPES[name], 10, {"pooling": "each"} if name == "cnn" else {})
    x = torch.randn(BATCH, *SHAPES[name]).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (BATCH,))
    weights = list(model.parameters())

    def step() -> None:
        torch.autograd.grad(cross_entropy(model(x), labels), weights)

    def forward() -> None:
        with torch.no_grad():
            model(x)

    found = {}
    for what in (step, forward):
        what()
        taken: list[float] = []
        while sum(taken) < SECONDS / 2 or len(taken) < 5:
            began = time.process_time()
            what()
            taken.append(time.process_time() - began)
        found[what.__name__] = round(1e3 * statistics.median(taken), 3)
    return found


def main() -> None:
    """Parse the arguments, measure in turns, print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["cnn_tiny", "cnn"], help=f"of {', '.join(SHAPES)}")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--one", choices=("kept", "given back"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.models[0], options.one == "kept")))
        return
    ways = ("given back", "kept")
    taken: dict[str, dict[str, list[dict[str, float]]]] = {name: {way: [] for way in ways} for name in options.models}
    for _ in range(options.repeats):
        for name in options.models:
            for way in ways:
                command = [sys.executable, __file__, name, "--one", way]
                taken[name][way].append(json.loads(subprocess.check_output(command)))
    print(
        json.dumps(
            {
                name: {
                    what: {way: statistics.median(one[what] for one in by_way[way]) for way in ways}
                    for what in ("step", "forward")
                }
                for name, by_way in taken.items()
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
