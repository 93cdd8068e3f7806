"""Trials: a run of a variant or in another precision, beside one that a table asks for, as far as both have come."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace

from flatfed.runs import identity
from flatfed.runs.places import RunIds, without_label
from flatfed.tables.own_setting import Trained

#: Evaluated rounds that an accuracy is the mean of.
LAST = 10


@dataclass(frozen=True)
class Trial:
    """``run``, of a variant of an algorithm or in another precision, and the ``plain`` one of the same clients.

    Batches and first weights are the same, too. ``common``: the rounds in which both were evaluated.
    """

    run: Trained
    plain: Trained
    common: list[float]

    @property
    def changed(self) -> str:
        """What the variant has otherwise, in words."""
        values = (identity.deciding_values(each.description) for each in (self.run, self.plain))
        found = identity.differences(*values)
        return "; ".join(
            f"{key.removeprefix('update.params.')} {json.dumps(here)} in place of {json.dumps(there)}"
            for key, here, there in found
            if key not in ("algorithm", "protocol")
        )

    @property
    def rounds(self) -> tuple[int, int]:
        """The first and the last of the rounds that accuracies are read from."""
        read = self.common[-LAST:]
        return int(read[0]), int(read[-1])

    @property
    def points(self) -> float:
        """The mean difference over all common rounds, the variant's minus the plain run's, in points."""
        return _mean(self.run, self.common) - _mean(self.plain, self.common)

    @property
    def accuracies(self) -> tuple[float, float]:
        """The mean accuracy of the last common rounds, in percent: of the plain run, and of the variant's."""
        return _mean(self.plain, self.common[-LAST:]), _mean(self.run, self.common[-LAST:])


def _mean(run: Trained, rounds: list[float]) -> float:
    by_round = dict(zip(run.history["round"], run.history[run.accuracy], strict=True))
    return 100 * statistics.fmean(by_round[round_] for round_ in rounds)


def trials(runs: list[Trained], plain: list[Trained]) -> Iterator[Trial]:
    """Yield each of ``runs`` that is of a variant of one of the ``plain`` runs, beside it, where both have lines.

    None of a variant that is, in its protocol, the plain algorithm by another name. A plain run in another precision
    stands beside the one in float32.
    """
    asked = {RunIds.of(run.description): run for run in plain}
    whole = {run.setting: run for run in plain if run.precision == "float32"}
    for run in sorted(runs, key=lambda run: astuple(run.ids)):
        ids = RunIds.of(run.description)
        other = asked.get(replace(ids, algorithm=without_label(ids.algorithm)))
        if other is not None and other.ids == run.ids:
            other = whole.get(run.setting)
        if other is None or other is run:
            continue
        trial = Trial(run, other, sorted({*run.history["round"]} & {*other.history["round"]}))
        if trial.common and trial.changed:
            yield trial
