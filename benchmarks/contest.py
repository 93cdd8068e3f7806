"""One row of benchmarks/rounds.py: a round of one workload by one algorithm, ours and the yardsticks' in turns."""

from __future__ import annotations

import statistics
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from phases import PhaseClock, Wait, floor
from workloads import Workload
from yardsticks import AUTOCAST, KINDS, YARDSTICKS

from flatfed.data.dataset import Dataset
from flatfed.data.partition import Partition
from flatfed.engine.job import assembly
from flatfed.engine.job.together import side_by_side
from flatfed.engine.sampling import active_clients
from flatfed.engine.simulation import Simulation
from flatfed.engine.speed.seeds import Joined, Meeting

PHASE_ROUNDS = 2
SLOW = 5.0  # an executor whose first turn takes so many times that of our fastest is not measured further
SOME = 1000  # test images that a shrunk workload evaluates

#: A round's work, and what its seconds are to be multiplied by.
Contender = tuple[Callable[[], Any], float]


@dataclass
class Contest:
    """How rows are measured.

    ``executors`` ours (empty: the one that protocols name); ``rounds`` turns; ``yardstick_clients`` how many clients
    the yardsticks train at most, None for all; ``workers`` processes of the data loader; ``peak`` rates of the machine
    as :func:`phases.peaks` has them; ``precision`` that of ours.
    """

    device: torch.device
    wait: Wait
    executors: list[str]
    rounds: int
    yardstick_clients: int | None
    workers: int
    peak: dict[str, float]
    precision: str

    def measure(self, kind: str, workload: Workload, algorithm: str) -> dict[str, Any]:
        """Return what a row says beside what it is of.

        ``fewer_rows`` how many clients trained at a time where memory did not allow all; ``device_bytes`` the most that
        all contenders took together.
        """
        description = workload.description(algorithm, self.precision)
        dataset, partition = workload.data()
        if kind == "seeds":
            return self.seeds(workload, algorithm, dataset, partition)
        ours, failed = self.ours(workload, description, dataset, partition)
        if not ours:
            raise RuntimeError(f"no executor can run {workload.name} with {algorithm}: {failed}")
        first = next(iter(ours.values()))
        contenders: dict[str, Contender] = {name: (run.advance, 1.0) for name, run in ours.items()}
        if kind == "round":
            contenders |= self.yardsticks(workload, description, dataset, first)
        seconds = self.turns(contenders)
        summed = _summed_up(seconds)
        middle = {name: one["median"] for name, one in summed.items()}
        found: dict[str, Any] = {
            "parameters": first.weights.parameters,
            "coordinates": first.layout.size,
            "seconds": summed,
            "failed": failed,
            "fewer_rows": {name: run.row_limit for name, run in ours.items() if run.row_limit is not None},
        }
        if self.device.type == "cuda":
            found["device_bytes"] = torch.cuda.max_memory_allocated()
            torch.cuda.reset_peak_memory_stats()
        if kind == "round":
            found["ratio"] = {
                name: {
                    kind: round(statistics.median(a / b for a, b in zip(seconds[kind], seconds[name], strict=True)), 3)
                    for kind in self.kinds
                }
                for name in ours
            }
            images = workload.epochs * workload.images
            least = floor(first, workload.active, workload.steps, images, self.peak)
            found |= {"floor": least, "of_floor": {name: least["seconds"] / value for name, value in middle.items()}}
            found["evaluation"] = self.evaluation(workload, first, min(middle[name] for name in ours))
            found["phases"] = {name: PhaseClock(run, self.wait).shares(PHASE_ROUNDS) for name, run in ours.items()}
        return found

    @property
    def kinds(self) -> tuple[str, ...]:
        """The yardsticks: those in float32, and beside ours in bfloat16 one by autocast."""
        return (*KINDS, AUTOCAST) if self.precision == "bfloat16" else KINDS

    def ours(
        self, workload: Workload, description: dict, dataset: Dataset, partition: Partition
    ) -> tuple[dict[str, Simulation], dict[str, str]]:
        """Return executor -> simulation, warmed up, and executor -> why it is left out."""
        found: dict[str, Simulation] = {}
        failed: dict[str, str] = {}
        took: dict[str, float] = {}
        for name in self.executors or [workload.executor[self.device.type]]:
            try:
                found[name] = assembly.simulation(description, dataset, partition, self.device, name)
                found[name].advance()
                took[name] = self.timed(found[name].advance)
            except Exception as error:  # what the others take is worth knowing all the same
                found.pop(name, None)
                failed[name] = f"{type(error).__name__}: {error}".splitlines()[0]
                traceback.print_exc()
        for name, once in took.items():
            if once > SLOW * min(took.values()):
                failed[name] = f"{once:.2f} s a round, more than {SLOW:g} times the fastest: not measured further"
                del found[name]
        return found, failed

    def seeds(self, workload: Workload, algorithm: str, dataset: Dataset, partition: Partition) -> dict[str, Any]:
        """Return the seconds of a round of all seeds, one after the other (``alone``) and as rows (``together``)."""
        name = workload.executor[self.device.type]
        alone, joined = (
            [
                assembly.simulation(
                    workload.description(algorithm, self.precision, seed=seed), dataset, partition, self.device, name
                )
                for seed in range(1, workload.seeds + 1)
            ]
            for _ in range(2)
        )

        def work(run: Simulation, meeting: Meeting) -> None:
            alone = getattr(run.local_update, "alone", run.local_update)
            run.local_update = Joined(alone, meeting)
            run.advance()

        seconds = self.turns(
            {
                "alone": (lambda: [run.advance() for run in alone], 1.0),
                "together": (lambda: side_by_side([partial(work, run) for run in joined]), 1.0),
            }
        )
        pairs = zip(seconds["alone"], seconds["together"], strict=True)
        return {
            "executor": name,
            "seconds": _summed_up(seconds),
            "ratio": {"together": {"alone": round(statistics.median(a / b for a, b in pairs), 3)}},
        }

    def evaluation(self, workload: Workload, run: Simulation, seconds: float) -> dict[str, float]:
        """Return ``images``, the ``seconds`` of their evaluation, and its ``share`` of a round that ends with one.

        Where the workload is shrunk, a part of the test images is evaluated, and the share is that of the whole: it is
        the time of both at their full sizes.
        """
        count = workload.test if not workload.changed else min(workload.test, SOME)
        row, images = run.server["w"][0], run.evaluate.images[:count]
        run.evaluate.hits(row, images)
        took = self.timed(lambda: run.evaluate.hits(row, images))
        whole = took * workload.test / count
        return {"images": count, "seconds": took, "share": whole / (whole + seconds * workload.shrunk)}

    def yardsticks(
        self, workload: Workload, description: dict, dataset: Dataset, run: Simulation
    ) -> dict[str, Contender]:
        """Return all kinds, training the clients of our run ``run``, or the first of them."""
        count = min(self.yardstick_clients or workload.active, workload.active)
        images, labels = torch.from_numpy(dataset.images), torch.from_numpy(dataset.labels)
        found = {}
        for kind in self.kinds:
            one = YARDSTICKS[description["algorithm"]](
                kind, description, images, labels, run.members, self.device, workers=self.workers
            )

            def work(one=one) -> None:
                active = active_clients(description["sampling"], run.client_count, run.seed, one.round)
                one.advance(active.tolist()[:count])

            found[kind] = (work, workload.active / count)
        return found

    def turns(self, contenders: dict[str, Contender]) -> dict[str, list[float]]:
        """Return name -> seconds of a round, one a turn; who begins changes from turn to turn."""
        taken: dict[str, list[float]] = {name: [] for name in contenders}
        names = list(contenders)
        for turn in range(self.rounds + 1):
            shift = turn % len(names)
            for name in names[shift:] + names[:shift]:
                work, times = contenders[name]
                seconds = self.timed(work)
                if turn:  # the first is to warm up
                    taken[name].append(seconds * times)
        return taken

    def timed(self, work: Callable[[], Any]) -> float:
        """Return the seconds that ``work`` takes, on the device too."""
        self.wait()
        began = time.perf_counter()
        work()
        self.wait()
        return time.perf_counter() - began


def _summed_up(seconds: dict[str, list[float]]) -> dict[str, dict[str, Any]]:
    """Return name -> the median and all of its ``seconds``."""
    return {
        name: {"median": statistics.median(taken), "all": [round(one, 6) for one in taken]}
        for name, taken in seconds.items()
    }
