"""The resolved settings of a run: plain values with nothing left to look up, all that the trainer reads.

The code that looks up an algorithm, model or executor checks its name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, ClassVar, Literal, Self

from pydantic import ConfigDict, model_validator

from flatfed.config.document import JsonDocument, mistake, require
from flatfed.config.protocol import IN_PLACE_OF, LearningRateSchedule
from flatfed.config.values import Count, Natural, Number, Shape, Share
from flatfed.data.keys import PartitionSettings
from flatfed.errors import DataError
from flatfed.runs.graphs import GRAPHS
from flatfed.runs.paths import RunIds, without_label


class RunSettings(JsonDocument):
    """Settings of a run, in the order of the sorted keys in its run.json.

    Unknown keys stay, because they may decide results. Absent keys are None.
    """

    model_config = ConfigDict(extra="allow")


class DatasetSettings(RunSettings):
    classes: Count
    mean: list[Number]
    name: str
    shape: Shape
    std: list[Number]

    @model_validator(mode="after")
    def _has_a_number_per_channel(self) -> Self:
        for key in ("mean", "std"):
            numbers, channels = getattr(self, key), self.shape[0]
            if len(numbers) != channels:
                raise mistake([key], f"{len(numbers)} numbers for {channels} channels")
        return self


class SamplingSettings(RunSettings):
    fraction: Share = None
    sampler: Literal["keyed"] = None
    scheme: Literal["all", "bernoulli", "fixed"]


class TopologySettings(RunSettings):
    graph: Literal[*GRAPHS]
    neighbours: Count = None


class ModelSettings(RunSettings):
    """``weights``: name of pre-trained weights."""

    name: str
    options: dict[str, Any]
    weights: str = None


class UpdateSettings(RunSettings):
    """An algorithm and its hyper-parameters."""

    name: str
    params: dict[str, Any]


class EvaluationSettings(RunSettings):
    """``sets``: "validation" are the held-out training images."""

    batch_size: Count
    every: Count
    sets: list[Literal["test", "train", "clients", "nodes", "validation"]]


class ProbeSettings(RunSettings):
    every: Count
    images: Count
    m: Count
    rho: Number


class ExecutorSettings(RunSettings):
    """Device -> executor."""

    cpu: str
    cuda: str


class RunConfig(RunSettings):
    """The settings of one run.

    ``validation``: the held-out share of each client's training images. ``rows``: the most clients that train at a
    time. ``state``: where client state is. ``checkpoint_every``: of earlier runs, without effect.
    """

    #: Fields that change the numbers of a run by rounding at most: they never refuse a finished run.
    EXECUTION: ClassVar = {
        **dict.fromkeys(("format", "checkpoint_every", "executor", "rows", "state"), True),
        "evaluation": {"batch_size"},
    }
    #: Those without effect on numbers and seconds.
    NEUTRAL: ClassVar = {"checkpoint_every"}
    #: Those that, with the batch size of evaluations, may change before a run resumes.
    RESUMABLE: ClassVar = {*NEUTRAL, "rows", "state"}

    algorithm: str
    augmentation: Literal["none", "crop_flip_half", "crop_flip_batch"]
    batch_norm_second_pass: Literal[False] = None
    batch_size: Count
    checkpoint_every: Count = None
    clip_norm: Number | None
    dataset: DatasetSettings
    evaluation: EvaluationSettings
    executor: ExecutorSettings
    format: int = None
    label_smoothing: Number = None
    learning_rate: Number
    learning_rate_decay: Number = None
    learning_rate_schedule: LearningRateSchedule = None
    local_epochs: Count = None
    local_steps: Count = None
    model: ModelSettings
    momentum: Number = None
    partition: PartitionSettings
    precision: Literal["float32", "float64", "bfloat16"]
    probe: ProbeSettings = None
    protocol: str
    rounds: Count
    rows: Count = None
    sampling: SamplingSettings
    scale: str
    seed: Natural
    split: str
    state: Literal["device", "memory", "file"] = None
    topology: TopologySettings = None
    update: UpdateSettings
    validation: Share = None
    weight_decay: Number

    @model_validator(mode="after")
    def _has_steps_and_learning_rates(self) -> Self:
        require(self, [other for key, other in IN_PLACE_OF.items() if not getattr(self, key)])
        return self

    @model_validator(mode="after")
    def _evaluates_what_it_holds_out(self) -> Self:
        if ("validation" in self.evaluation.sets) != (self.validation is not None):
            raise mistake(["evaluation", "sets"], "it has 'validation' if, and only if, `validation` is a share")
        return self

    @property
    def ids(self) -> RunIds:
        return RunIds(self.scale, self.protocol, self.split, self.algorithm, self.seed)

    @property
    def deciding(self) -> dict[str, Any]:
        """The settings that decide the run's numbers, as JSON."""
        return self.model_dump(exclude_defaults=True, exclude=self.EXECUTION)

    @property
    def deciding_seconds(self) -> dict[str, Any]:
        """The settings that decide numbers or seconds, as JSON."""
        return self.model_dump(exclude_defaults=True, exclude=self.NEUTRAL)

    def deciding_differences(self, requested: Self) -> list[str]:
        """Return :func:`difference_texts` of the settings that decide the numbers of a recorded and a requested run."""
        return difference_texts(self.deciding, requested.deciding)

    def in_form_of(self, recorded: Self) -> Self:
        """Return the settings in the precision of a ``recorded`` run of a variant of the protocol, with its label.

        A run that serves from another folder may differ by these two alone; the label marks its numbers in tables.
        """
        if without_label(recorded.protocol) != without_label(self.protocol) or recorded.protocol == self.protocol:
            return self
        return self.model_copy(update={"precision": recorded.precision, "protocol": recorded.protocol})

    def check_partition(self, where: str, spec: dict[str, Any]) -> None:
        """Raise DataError with every different key if ``spec``, of file ``where``, is not the run's partition."""
        requested = {**self.partition.as_written(), "seed": self.seed}
        actual = {key: value for key, value in spec.items() if key != "dataset_digest"}
        if texts := difference_texts(actual, requested, "the run has"):
            raise DataError(f"{where}: not the partition of the run: {'; '.join(texts)}; delete the file to rebuild it")

    def changed(self, *removed: str, **changes: Any) -> Self:
        """Return the settings without the keys ``removed``, and with ``changes``, JSON by key."""
        return type(self)(**{key: value for key, value in self.as_json().items() if key not in removed} | changes)


def differences(recorded: Any, requested: Any, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (key, recorded, requested) for every difference of two nested dictionaries; None for an absent value."""
    if isinstance(recorded, dict) and isinstance(requested, dict):
        for name in sorted(recorded.keys() | requested.keys()):
            yield from differences(recorded.get(name), requested.get(name), f"{key}.{name}" if key else name)
    elif recorded != requested:
        yield key, recorded, requested


def difference_texts(recorded: Any, requested: Any, label: str = "here") -> list[str]:
    """Return "key is <recorded>, <label> <requested>" for each of the :func:`differences`."""
    return [f"{key} is {json.dumps(a)}, {label} {json.dumps(b)}" for key, a, b in differences(recorded, requested)]
