"""What runs will cost: seconds of a round, estimated from measurements; memory, computed and measured; disk.

A run is measured where one of the same protocol, split and algorithm is finished or timed on the same kind of device.
Else its seconds are scaled from runs of the same model, images and batch size: of the same algorithm if there is past.
Those of training go with the images that a round's gradients see, those of evaluation with the images that are
evaluated. Where nothing like it was measured, they are counted (:mod:`flatfed.commands.plan_counted`), and called so.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

from flatfed import algorithms, gpus
from flatfed.commands import plan_counted
from flatfed.commands.plan_counted import Datasets, images_evaluated, images_seen, kind_of, model_of
from flatfed.commands.plan_measured import Measured, measured
from flatfed.engine.memory import sizes
from flatfed.engine.memory.sizes import Footprint, Sizes
from flatfed.experiment import Experiment, Run
from flatfed.runs.places import RunIds

#: Bytes of a number as it is kept and sent (float32).
FLOAT = 4

#: Bytes that Python and torch take before the first round, about.
STARTED = 500_000_000

#: Bytes of a line of metrics.csv and of a run.json, about.
LINE, RECORD = 160, 6000


class Seconds(NamedTuple):
    """Seconds of a ``round``, None where they are not known, those of its ``evaluation``, and the way they are known.

    ``way``: "measured", "scaled", "counted" or "unknown".
    """

    round: float | None
    evaluation: float
    way: str


class Costs:
    """Estimates for runs on one kind of ``device`` ("cpu", "cuda"), from ``known`` measurements on any device."""

    def __init__(self, known: Iterable[Measured], device: str, datasets: Datasets):
        self.device, self.datasets = device, datasets
        self.known = list(known)
        # How many images a round sees is not known for a data set that is no longer declared.
        self.here = [
            past for past in self.known if past.device == device and past.description["dataset"]["name"] in datasets
        ]

    def machines(self) -> list[str]:
        """Return the names of the machines that the seconds were measured on."""
        return sorted({past.machine for past in self.here if past.machine})

    def seconds(self, run: Run) -> Seconds:
        """Return the seconds of a round by what was measured: of runs like it, or scaled from others of its kind."""
        near, way = self._near(run)
        if not near:
            return Seconds(None, 0.0, "unknown")
        training, evaluation = zip(*(self._scaled(past, run) for past in near), strict=True)
        evaluated = statistics.fmean(evaluation)
        return Seconds(statistics.fmean(training) + evaluated, evaluated, way)

    def expected(self, run: Run) -> Seconds:
        """Return :meth:`seconds` or, where these are unknown, those that the operations of a round take."""
        known = self.seconds(run)
        if known.way != "unknown" or (operations := self.operations(run.description)) is None:
            return known
        training, evaluation = operations
        rate = self.rate()
        return Seconds((training + evaluation) / rate, evaluation / rate, "counted")

    def operations(self, description: dict[str, Any]) -> tuple[float, float] | None:
        """Return the operations of a round's gradients and of its evaluation.

        None at preview scale, where they do not decide the time, and where torch is not installed.
        """
        if description["scale"] == "preview":
            return None
        of_image = plan_counted.of_image(*model_of(description))
        if of_image is None:
            return None
        seen, evaluated = images_seen(description, self.datasets), images_evaluated(description, self.datasets)
        return of_image[0] * seen, of_image[1] * evaluated

    def rate(self) -> float:
        """Return operations a second: the median over what was measured on the device, else a nominal number."""
        here = [(self.operations(past.description), past.seconds_per_round) for past in self.here]
        rates = [sum(operations) / seconds for operations, seconds in here if operations]
        return statistics.median(rates) if rates else plan_counted.NOMINAL[self.device]

    def _near(self, run: Run) -> tuple[list[Measured], str]:
        """Return the measurements that the seconds of ``run`` are estimated from, and how: see :meth:`seconds`."""
        same = [past for past in self.here if _row(past.description) == _row(run.description)]
        if same:
            return same, "measured"
        kind, algorithm = kind_of(run.description), run.description["update"]["name"]
        of_kind = [past for past in self.here if kind_of(past.description) == kind]
        of_algorithm = [past for past in of_kind if past.description["update"]["name"] == algorithm]
        return (of_algorithm or of_kind), "scaled" if of_kind else "unknown"

    def _scaled(self, past: Measured, run: Run) -> tuple[float, float]:
        """Return the seconds of training and of evaluation in a round of ``run``, scaled from those of ``past``.

        Where ``past`` does not tell them apart, all are training.
        """

        def ratio(count: Callable[[dict[str, Any], Datasets], float]) -> float:
            return count(run.description, self.datasets) / count(past.description, self.datasets)

        share = past.evaluation or 0.0
        training = past.seconds_per_round * (1 - share) * ratio(images_seen)
        evaluation = past.seconds_per_round * share * ratio(images_evaluated) if share else 0.0
        return training, evaluation

    def parameters(self, run: Run) -> int | None:
        """Return the number of parameters of a run's model: from a run of it, else by building it with torch."""
        for past in self._of_model(run):
            return past.parameters
        built = _built(*model_of(run.description), False, "sequential")
        return None if built is None else built.row

    def disk(self, run: Run, model: bool) -> int | None:
        """Return the bytes of a finished run's folder, with its ``model`` or without; None where that is unknown."""
        lines = run.description["rounds"] / run.description["evaluation"]["every"]
        rest = round(LINE * lines) + RECORD
        if not model:
            return rest
        size = self.parameters(run)
        return None if size is None else FLOAT * size + rest

    def sizes(self, run: Run) -> Sizes | None:
        """Return the bytes that ``run`` takes at most, by what takes them; None where torch is not installed.

        Of a model that was measured activations are left out: what it took in all is known (:meth:`memory`), and torch
        is not needed.
        """
        description, executor = run.description, run.description["executor"][self.device]
        cropped = _is_cropped(description)
        rows = [
            past.row or past.parameters
            for past in self._of_model(run)
            if not past.row or _is_cropped(past.description) == cropped
        ]
        if rows:
            gradient = sizes.PIECES * min(rows)
            footprint = Footprint(row=min(rows), least=gradient, step=gradient, image=0, forward=0)
        else:
            footprint = _built(*model_of(description), cropped, executor)
        if footprint is None:
            return None
        update = description["update"]
        return sizes.computed(
            description,
            algorithms.made(**update),
            footprint,
            images=self.datasets[description["dataset"]["name"]]["train"],
            together=1 if executor == "sequential" else None,
            recorded=executor in sizes.RECORDED,
        )

    def memory(self, run: Run) -> tuple[int, int]:
        """Return the largest (host, device) memory in bytes that runs of this model took, 0 where none was measured."""
        host = max((past.memory or 0 for past in self._of_model(run)), default=0)
        return host, max((past.device_memory or 0 for past in self._of_model(run)), default=0)

    def _of_model(self, run: Run) -> list[Measured]:
        """Return what was measured, on any device, of runs of the same model."""
        model = model_of(run.description)
        return [past for past in self.known if model_of(past.description) == model]

    def on_host(self, run: Run) -> int:
        """Return the bytes of host memory that ``run`` takes: measured on runs of its model or computed, the larger.

        A GPU's run may have to keep the state of its clients there.
        """
        computed = self.sizes(run)
        taken = 0 if computed is None else computed.state if self.device == "cuda" else computed.total
        return max(self.memory(run)[0], STARTED + taken)


def known_costs(experiment: Experiment, scale: str) -> tuple[Costs, list[str]]:
    """Return the costs that are known at ``scale`` for the configuration's device, and a line for what is left out."""
    known, left_out = measured(experiment.places, scale)
    return Costs(known, gpus.resolve(experiment.config.get("device", "auto")), experiment.catalog.datasets), left_out


def _row(description: dict[str, Any]) -> tuple[str, str]:
    """Return what the seeds of a row have in common: the scale, and protocol, split and algorithm."""
    ids = RunIds.of(description)
    return ids.scale, ids.row


def _is_cropped(description: dict[str, Any]) -> bool:
    """Return whether a run's rows leave out the dead taps of its model (:mod:`flatfed.engine.speed.taps`)."""
    return algorithms.made(**description["update"]).keeps_rows_whole()


@cache
def _built(
    name: str, options: str, shape: tuple[int, ...], classes: int, cropped: bool, executor: str
) -> Footprint | None:
    """Return the footprint of a model that is built without memory; None where torch is not installed.

    ``cropped``: its dead taps are left out (:mod:`flatfed.engine.speed.taps`).
    """
    try:
        import torch
    except ModuleNotFoundError:
        return None
    from flatfed import models
    from flatfed.engine import executors
    from flatfed.engine.memory import footprint
    from flatfed.engine.speed import live

    with torch.device("meta"):
        module = models.build(name, shape, classes, json.loads(options)).requires_grad_(False)
    return footprint.measured(executors.kind(executor)(*live.layout_of(module, shape, cropped)), shape)
