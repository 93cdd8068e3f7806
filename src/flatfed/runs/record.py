"""``run.json``, the record of a run. Its digests reveal mistakes (a file edited, cut, misplaced), not forgery."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ConfigDict, Field

from flatfed.config.document import JsonDocument
from flatfed.config.values import Count, Device, Natural, Number, Version
from flatfed.errors import DataError, missing_message
from flatfed.files import digest_file, misread, read_sealed, write_sealed
from flatfed.runs import source_code
from flatfed.runs.run_config import RunConfig

Result = TypeVar("Result")

METRICS = "metrics.csv"
MODEL = "model.safetensors"
RECORD = "run.json"
#: Files of a finished run; the record is written last.
FILES = (METRICS, MODEL, RECORD)

#: Metrics and record of an unfinished run, next to its checkpoint.
LINES_SO_FAR, RECORD_SO_FAR, CHECKPOINT = "metrics.so-far.csv", "run.so-far.json", ".checkpoint"

TITLE = "the record of a run"
REMEDY = "restore the original file, or train the run again"
TRAIN_AGAIN = "remove the run's folder, and the next call trains the run again"

#: A remedy for other data.
ORDER = "If its source has another order of images than the run, use the key `order` (docs/running.md)."


class RunRecord(JsonDocument):
    """Everything that produced a run, and its costs. None (absent from the file): unknown or not applicable.

    ``rows``: the most clients that trained at a time, if limited. ``row``: length of a trained row, without dead taps.
    Seconds are sums over all ``sessions``; ``device`` to ``callbacks`` describe the last one: ``commit`` and
    ``package_digest`` are of FlatFed's sources, ``callbacks`` are the user's files. ``also``: results of the
    algorithm's other models. ``repetition``: of images (:func:`flatfed.data.partition.repetition`). ``files``,
    ``callbacks``: SHA-256 by name.
    """

    model_config = ConfigDict(populate_by_name=True)

    config: RunConfig = Field(alias="description")
    rounds_done: Natural
    diverged_at: Count | None
    dataset_digest: str
    partition_digest: str
    description_digest: str | None = None
    versions: dict[str, Version] | None = None
    weights_digest: str | None = None
    images: dict[str, int] | None = None
    repetition: dict[str, int] | None = None
    probes: list[dict[str, Any]] | None = None
    executor: str | None = None
    rows: Count | None = None
    row: Count | None = None
    precision: str | None = None
    parameters: Count | None = None
    local_steps: Natural | None = None
    gradient_evaluations: Natural | None = None
    stored_vectors: Natural | None = None
    spectral_gap: Number | None = None
    seconds: Number | None = None
    seconds_training: Number | None = None
    seconds_evaluation: Number | None = None
    peak_memory_bytes: Natural | None = None
    peak_device_memory_bytes: Natural | None = None
    client_state: str | None = None
    device: Device | None = None
    threads: Count | None = None
    tf32: bool | None = None
    libraries: dict[str, str] | None = None
    host: dict[str, Any] | None = None
    commit: str | None = None
    package_digest: str | None = None
    callbacks: dict[str, str] | None = None
    sessions: list[dict[str, Any]] = Field(default_factory=list)
    also: dict[str, Any] = Field(default_factory=dict)
    finished: str | None = None
    written: str | None = None
    files: dict[str, str] = Field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.config.ids.name

    @property
    def metrics(self) -> str:
        """The name of its file of metrics."""
        return LINES_SO_FAR if LINES_SO_FAR in self.files else METRICS

    @property
    def ended(self) -> bool:
        """Whether the run is complete or diverged."""
        return self.diverged_at is not None or self.rounds_done >= self.config.rounds

    @property
    def changed_sources(self) -> str:
        """The commits of sessions whose sources differ from them, "abc and changes since", or "".

        The sources of sessions without a commit are compared with the present ones.
        """
        commits = dict.fromkeys([self.commit, *(session.get("commit") for session in self.sessions)])
        texts = [commit for commit in commits if commit and commit.endswith(source_code.CHANGED)]
        without_git = {session.get("package_digest") for session in self.sessions if not session.get("commit")}
        texts += ["not the present ones"] * bool(without_git - {None, source_code.package_digest()})
        return " and ".join(texts)

    def require(self, names: Iterable[str], where: str | os.PathLike[str]) -> None:
        """Refuse a record without one of the optional fields ``names``; raises DataError."""
        for name in names:
            if getattr(self, name) is None:
                raise misread(where, TITLE, missing_message("key", name, self.as_json(), str(where)), REMEDY)

    def check_config(self, where: str, requested: RunConfig) -> None:
        """Raise DataError with every different key if the record, in file ``where``, is of another run."""
        if texts := self.config.deciding_differences(requested):
            raise DataError(f"{where}: not the requested run: {'; '.join(texts)}; {TRAIN_AGAIN}")

    def check_data(self, where: str, partition: str) -> None:
        """Raise DataError if the run of the record, in file ``where``, was not trained on ``partition``."""
        from flatfed.data import partition as partitions  # imports NumPy

        current = partitions.load(partition)
        self.config.check_partition(partition, current.spec)
        digests = {"partition_digest": current.digest, "dataset_digest": current.spec.get("dataset_digest")}
        for key, digest in digests.items():
            recorded = getattr(self, key)
            if digest not in (None, recorded):
                data = f"{key} is {recorded[:12]}, but that of {partition} is {digest[:12]}"
                raise DataError(f"{where}: {data}: the run was trained on other data; {TRAIN_AGAIN}. {ORDER}")

    def check_files(self, folder: str | os.PathLike[str], *names: str) -> None:
        """Check the digests of the files ``names`` in ``folder``; DataError if a file differs or is unreadable."""
        for name in names:
            path = Path(folder, name)
            if name not in self.files:
                recorded = ", ".join(sorted(self.files))
                raise DataError(f"{path.with_name(RECORD)}: has no digest of {name}; it has: {recorded}")
            try:
                digest = digest_file(path)
            except OSError as problem:
                remedy = f"as a target it is kept: snakemake --cores all -- {path}" if name == MODEL else REMEDY
                raise DataError(f"{path}: cannot be read ({problem.strerror}); {remedy}") from None
            if digest != self.files[name]:
                digests = f"SHA-256 {digest[:12]}, recorded {self.files[name][:12]}"
                raise DataError(
                    f"{path}: is not the file that {record_name(name)} next to it describes ({digests}); {REMEDY}"
                )


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


def write(path: str | os.PathLike[str], record: RunRecord, files: tuple[Path, ...]) -> None:
    """Write ``record`` to ``path``, atomically, with its seal and the digests of ``files``."""
    record = record.model_copy(update={"files": {file.name: digest_file(file) for file in files}})
    write_sealed(path, record.as_json())


def read(path: str | os.PathLike[str]) -> RunRecord:
    """Return the record in ``path``; FileNotFoundError without it, DataError for a damaged or edited file."""
    return read_sealed(RunRecord.of_json, path, TITLE, REMEDY)


def read_finished(folder: str | os.PathLike[str]) -> RunRecord:
    """Return the record of the finished run in ``folder``; DataError without one, or as :func:`read`."""
    try:
        return read(Path(folder) / RECORD)
    except FileNotFoundError:
        raise DataError(f"{folder}: not a finished run: it has no {RECORD}") from None


def read_again(read: Callable[[], Result], so_far: bool) -> Result:
    """Return ``read()``; with ``so_far`` (unfinished runs), wait and repeat it up to five times after an error.

    A training replaces its lines and its record one after the other.
    """
    for _ in range(5 if so_far else 0):
        with contextlib.suppress(OSError, DataError):
            return read()
        time.sleep(0.1)
    return read()


def record_name(name: str) -> str:
    """Return the name of the record next to the file ``name``."""
    return RECORD_SO_FAR if name == LINES_SO_FAR else RECORD
