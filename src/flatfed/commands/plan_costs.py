"""What runs will cost: seconds of a round, from what was measured; memory, worked out and measured; size on disk.

A run is measured where one of the same protocol, split and algorithm is finished or timed on the same kind of device.
Else its seconds are scaled from runs of the same model, images and batch size: of the same algorithm if there is one.
Those of training go with the images that a round's gradients see, those of evaluation with the images that are
evaluated. Where nothing like it was measured, they are counted (:mod:`flatfed.commands.plan_counted`), and called so.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from functools import cache
from typing import Any

from flatfed import algorithms
from flatfed.commands import plan_counted
from flatfed.commands.plan_counted import images_evaluated, images_seen, kind_of, model_of
from flatfed.commands.plan_measured import Measured
from flatfed.engine.memory import sizes
from flatfed.engine.memory.sizes import Footprint, Sizes
from flatfed.experiment import Run

#: Bytes of a number as it is kept and sent (float32).
FLOAT = 4

#: Bytes that Python and torch take before the first round, about.
STARTED = 500_000_000

#: Bytes of a line of metrics.csv and of a run.json, about.
LINE, RECORD = 160, 6000


class Costs:
    """Estimates for runs on one kind of ``device`` ("cpu", "cuda"), from ``known`` measurements of any.

    ``training`` and ``test``: dataset name -> images in its training and its test set.
    """

    def __init__(self, known: Iterable[Measured], device: str, training: dict[str, int], test: dict[str, int]):
        self.training, self.test = training, test
        self.device = device
        self.known = list(known)
        # Of a data set that is not declared any more it is not known how many images a round sees.
        self.here = [
            one for one in self.known if one.device == device and one.description["dataset"]["name"] in training
        ]

    def machines(self) -> list[str]:
        """Return the names of the machines that the seconds were measured on."""
        return sorted({one.machine for one in self.here if one.machine})

    def seconds(self, run: Run) -> tuple[float | None, str]:
        """Return (seconds of a round or None, how that is known: "measured", "scaled", "unknown")."""
        near, how = self._near(run)
        if not near:
            return None, "unknown"
        return statistics.fmean(sum(self._scaled(one, run)) for one in near), how

    def expected(self, run: Run) -> tuple[float | None, str]:
        """Return what :meth:`seconds` does and, where it knows nothing, (those that are counted, "counted")."""
        known = self.seconds(run)
        if known[0] is not None or (operations := self.operations(run.description)) is None:
            return known
        return sum(operations) / self.rate(), "counted"

    def evaluation(self, run: Run) -> float | None:
        """Return the share of evaluation in the seconds of ``run``, None where none is known of what they are from."""
        near, _ = self._near(run)
        parts = [self._scaled(one, run) for one in near if one.evaluation is not None]
        if not near and (operations := self.operations(run.description)):
            parts = [operations]
        shares = [evaluation / (training + evaluation) for training, evaluation in parts]
        return statistics.fmean(shares) if shares else None

    def operations(self, description: dict[str, Any]) -> tuple[float, float] | None:
        """Return the operations of a round's gradients and of its evaluation, None where they do not tell the time."""
        if description["scale"] == "preview":
            return None
        of_image = plan_counted.of_image(*model_of(description))
        if of_image is None:
            return None
        return of_image[0] * self._images(description), of_image[1] * self._evaluated(description)

    def rate(self) -> float:
        """Return operations a second: the median of what was measured on the device, or a nominal number."""
        here = [(self.operations(one.description), one.seconds_per_round) for one in self.here]
        found = [sum(operations) / seconds for operations, seconds in here if operations]
        return statistics.median(found) if found else plan_counted.NOMINAL[self.device]

    def _near(self, run: Run) -> tuple[list[Measured], str]:
        """Return what the seconds of ``run`` are estimated from, and how."""
        same = [one for one in self.here if _ids(one.description) == _ids(run.description)]
        if same:
            return same, "measured"
        alike = [one for one in self.here if kind_of(one.description) == kind_of(run.description)]
        own = [one for one in alike if one.description["update"]["name"] == run.description["update"]["name"]]
        return (own or alike), "scaled" if alike else "unknown"

    def _scaled(self, one: Measured, run: Run) -> tuple[float, float]:
        """Return what ``one`` says of a round of ``run``: the seconds of training, all where that is not known apart,
        and of evaluation."""
        share = one.evaluation or 0.0
        training = one.seconds_per_round * (1 - share) * self._images(run.description) / self._images(one.description)
        if not share:
            return training, 0.0
        evaluated = self._evaluated(run.description) / self._evaluated(one.description)
        return training, one.seconds_per_round * share * evaluated

    def parameters(self, run: Run) -> int | None:
        """Return the number of parameters of a run's model: from a run of it, else by building it with torch."""
        wanted = model_of(run.description)
        for one in self.known:
            if model_of(one.description) == wanted:
                return one.parameters
        built = _built(*wanted, False, "sequential")
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
        description, model = run.description, model_of(run.description)
        kind = algorithms.load(description["update"]["name"])
        alike, executor = bool(vars(kind).get("alike")), description["executor"][self.device]
        executor = sizes.LARGEST if executor == "auto" else executor
        rows = [
            one.row or one.parameters
            for one in self.known
            if model_of(one.description) == model
            and (not one.row or bool(vars(algorithms.load(one.description["update"]["name"])).get("alike")) == alike)
        ]
        pieces = [sizes.PIECES * min(rows)] * 2 if rows else []
        found = Footprint(min(rows), *pieces, 0, 0) if rows else _built(*model, alike, executor)
        if found is None:
            return None
        return sizes.of(
            description,
            kind(**description["update"]["params"]),
            found,
            images=self.training[description["dataset"]["name"]],
            together=1 if executor == "sequential" else None,
            recorded=executor in sizes.RECORDED,
        )

    def memory(self, run: Run) -> tuple[int, int]:
        """Return the largest (host, device) memory in bytes that runs of this model took, 0 where none was measured."""
        alike = [one for one in self.known if model_of(one.description) == model_of(run.description)]
        host = max((one.memory or 0 for one in alike), default=0)
        return host, max((one.device_memory or 0 for one in alike), default=0)

    def on_host(self, run: Run) -> tuple[int, int]:
        """Return the host's memory in bytes that ``run`` takes: as measured of its model, and as worked out.

        A GPU's run may have to keep the state of its clients there.
        """
        found = self.sizes(run)
        taken = 0 if found is None else found.state if self.device == "cuda" else found.total
        return self.memory(run)[0], STARTED + taken

    def images(self, run: Run) -> float:
        """Return how many images the gradients of a round of ``run`` see."""
        return self._images(run.description)

    def _images(self, description: dict[str, Any]) -> float:
        return images_seen(description, self.training[description["dataset"]["name"]])

    def _evaluated(self, description: dict[str, Any]) -> float:
        name = description["dataset"]["name"]
        return images_evaluated(description, self.training[name], self.test[name])


def _ids(description: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(description[key] for key in ("scale", "protocol", "split", "algorithm"))


@cache
def _built(
    name: str, options: str, shape: tuple[int, ...], classes: int, alike: bool, executor: str
) -> Footprint | None:
    """Return the footprint of a model that is built without memory; None where torch is not installed.

    ``alike``: its dead taps are left out (:mod:`flatfed.engine.speed.taps`).
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
    return footprint.of(executors.kind(executor)(*live.layout_of(module, shape, alike)), shape)
