"""A row of benchmarks/rounds.py: rounds of a workload and an algorithm, in turns."""

from __future__ import annotations

import statistics
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from phases import PhaseClock, Wait, floor
from workloads import Workload
from yardsticks import AUTOCAST, KINDS, YARDSTICKS

from flatfed.data.dataset import Dataset
from flatfed.data.partition import Partition
from flatfed.engine.batches import active_clients
from flatfed.engine.job import assembly
from flatfed.engine.simulation import Simulation
from flatfed.runs.run_config import RunConfig

PHASE_ROUNDS = 2
SLOW = 5.0  # an executor this many times slower than the fastest is dropped
TEST_IMAGES = 1000  # evaluated images of a shrunk workload

#: A round's work, and the factor of its seconds.
Contender = tuple[Callable[[], Any], float]


@dataclass
class Contest:
    """Settings of the measurement.

    ``executors``: FlatFed's, by default the workload's; ``rounds``: turns; ``yardstick_clients``: most clients of a
    yardstick, None for all; ``peak``: rates of :func:`phases.peaks`; ``precision``: FlatFed's.
    """

    device: torch.device
    wait: Wait
    executors: list[str]
    rounds: int
    yardstick_clients: int | None
    peak: dict[str, float]
    precision: str

    def measure(self, kind: str, workload: Workload, algorithm: str) -> dict[str, Any]:
        """Return the results of a row."""
        config = workload.config(algorithm, self.precision)
        dataset, partition = workload.data()
        ours, failed = self.ours(workload, config, dataset, partition)
        if not ours:
            raise RuntimeError(f"no executor can run {workload.name} with {algorithm}: {failed}")
        reference = next(iter(ours.values()))
        contenders: dict[str, Contender] = {name: (run.advance, 1.0) for name, run in ours.items()}
        if kind == "round":
            contenders |= self.yardsticks(workload, config, dataset, reference)
        seconds = self.turns(contenders)
        summary = _summary(seconds)
        medians = {name: values["median"] for name, values in summary.items()}
        results: dict[str, Any] = {
            "parameters": reference.weights.parameters,
            "coordinates": reference.layout.size,
            "seconds": summary,
            "failed": failed,
        }
        if self.device.type == "cuda":
            results["device_bytes"] = torch.cuda.max_memory_allocated()
            torch.cuda.reset_peak_memory_stats()
        if kind == "round":
            results["ratio"] = {
                name: {
                    kind: round(statistics.median(a / b for a, b in zip(seconds[kind], seconds[name], strict=True)), 3)
                    for kind in self.kinds
                }
                for name in ours
            }
            images = workload.epochs * workload.images
            least = floor(reference, workload.active, workload.steps, images, self.peak)
            results["floor"] = least
            results["of_floor"] = {name: least["seconds"] / value for name, value in medians.items()}
            results["evaluation"] = self.evaluation(workload, reference, min(medians[name] for name in ours))
            results["phases"] = {name: PhaseClock(run, self.wait).shares(PHASE_ROUNDS) for name, run in ours.items()}
        return results

    @property
    def kinds(self) -> tuple[str, ...]:
        return (*KINDS, AUTOCAST) if self.precision == "bfloat16" else KINDS

    def ours(
        self, workload: Workload, config: RunConfig, dataset: Dataset, partition: Partition
    ) -> tuple[dict[str, Simulation], dict[str, str]]:
        """Return executor -> simulation, and executor -> reason for dropping it."""
        runs: dict[str, Simulation] = {}
        failed: dict[str, str] = {}
        took: dict[str, float] = {}
        for name in self.executors or [workload.executor[self.device.type]]:
            try:
                runs[name] = assembly.simulation(config, dataset, partition, self.device, name)
                runs[name].advance()
                took[name] = self.timed(runs[name].advance)
            except Exception as error:  # measure the other executors
                runs.pop(name, None)
                failed[name] = f"{type(error).__name__}: {error}".splitlines()[0]
                traceback.print_exc()
        for name, seconds in took.items():
            if seconds > SLOW * min(took.values()):
                failed[name] = f"{seconds:.2f} s a round, more than {SLOW:g} times the fastest: not measured further"
                del runs[name]
        return runs, failed

    def evaluation(self, workload: Workload, run: Simulation, seconds: float) -> dict[str, float]:
        """Return ``images``, the ``seconds`` of their evaluation, and its ``share`` of a full round."""
        count = workload.test if not workload.changed else min(workload.test, TEST_IMAGES)
        row, images = run.server["w"][0], run.evaluate.images[:count]
        run.evaluate.hits(row, images)
        took = self.timed(lambda: run.evaluate.hits(row, images))
        full = took * workload.test / count
        return {"images": count, "seconds": took, "share": full / (full + seconds * workload.shrunk)}

    def yardsticks(
        self, workload: Workload, config: RunConfig, dataset: Dataset, run: Simulation
    ) -> dict[str, Contender]:
        """Return all yardsticks, with the first clients of ``run``."""
        count = min(self.yardstick_clients or workload.active, workload.active)
        images, labels = torch.from_numpy(dataset.images), torch.from_numpy(dataset.labels)
        contenders = {}
        for kind in self.kinds:
            build = YARDSTICKS[config.algorithm]
            yardstick = build(kind, config, images, labels, run.members, self.device)

            def work(yardstick=yardstick) -> None:
                clients = active_clients(config.sampling, run.client_count, run.seed, yardstick.round)
                yardstick.advance(clients.tolist()[:count])

            contenders[kind] = (work, workload.active / count)
        return contenders

    def turns(self, contenders: dict[str, Contender]) -> dict[str, list[float]]:
        """Return name -> seconds of each turn, in rotating order."""
        taken: dict[str, list[float]] = {name: [] for name in contenders}
        names = list(contenders)
        for turn in range(self.rounds + 1):
            shift = turn % len(names)
            for name in names[shift:] + names[:shift]:
                work, times = contenders[name]
                seconds = self.timed(work)
                if turn:  # the first turn is a warm-up
                    taken[name].append(seconds * times)
        return taken

    def timed(self, work: Callable[[], Any]) -> float:
        self.wait()
        began = time.perf_counter()
        work()
        self.wait()
        return time.perf_counter() - began


def _summary(seconds: dict[str, list[float]]) -> dict[str, dict[str, Any]]:
    return {
        name: {"median": statistics.median(taken), "all": [round(value, 6) for value in taken]}
        for name, taken in seconds.items()
    }
