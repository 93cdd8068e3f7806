"""The model of an analysis: the name of its run, and digests of everything that decides the results."""

from __future__ import annotations

from dataclasses import dataclass

from flatfed.runs.record import RunRecord


@dataclass(frozen=True, kw_only=True)
class Digests:
    """SHA-256 digests of a run's description (None if the record lacks it), model file, dataset and partition."""

    run: str | None
    model: str
    dataset: str
    partition: str

    @classmethod
    def of_run(cls, record: RunRecord, model: str) -> Digests:
        """Return the digests of the run of ``record``, whose model file has the digest ``model``."""
        data = {"dataset": record.dataset_digest, "partition": record.partition_digest}
        return cls(run=record.description_digest, model=model, **data)


@dataclass(frozen=True, kw_only=True)
class AnalysedModel:
    """The model of the run ``name``, ``<protocol>/<split>/<algorithm>/seed<k>``."""

    name: str
    scale: str
    digests: Digests
