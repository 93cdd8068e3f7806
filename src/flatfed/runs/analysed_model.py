"""The model of an analysis and the digests that decide its results."""

from __future__ import annotations

from flatfed.config.json_document import JsonDocument
from flatfed.runs.record import RunRecord


class Digests(JsonDocument):
    """SHA-256 digests of a run's description (may be unknown), model file, dataset and partition."""

    run: str | None
    model: str
    dataset: str
    partition: str

    @classmethod
    def of_run(cls, record: RunRecord, model: str) -> Digests:
        """Return the digests of a run; ``model`` is that of its model file."""
        data = {"dataset": record.dataset_digest, "partition": record.partition_digest}
        return cls(run=record.description_digest, model=model, **data)


class AnalysedModel(JsonDocument):
    """The model of the run ``name``, ``<protocol>/<split>/<algorithm>/seed<k>``."""

    name: str
    scale: str
    digests: Digests
