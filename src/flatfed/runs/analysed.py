"""The model that an analysis was made of: its run, and the digests that decide every number taken from it."""

from __future__ import annotations

from dataclasses import dataclass

from flatfed.runs.record import RunRecord


@dataclass(frozen=True, kw_only=True)
class Digests:
    """SHA-256 digests of everything that decides the numbers taken from a run's model.

    ``run`` is that of the run description, None if the record lacks it.
    """

    run: str | None
    model: str
    dataset: str
    partition: str

    @classmethod
    def of_run(cls, record: RunRecord, model: str) -> Digests:
        """Return the digests of the run of ``record``; ``model`` is that of its model file."""
        data = {"dataset": record.dataset_digest, "partition": record.partition_digest}
        return cls(run=record.description_digest, model=model, **data)


@dataclass(frozen=True, kw_only=True)
class AnalysedModel:
    """The model of an analysis: the run's name, ``<protocol>/<split>/<algorithm>/seed<k>``, scale and digests."""

    name: str
    scale: str
    digests: Digests
