"""``run.json``, the record of a run: one dataclass with its reader and its writer.

``files`` in it holds the SHA-256 of the files beside it, ``record_sha256`` that of everything else in it. They reveal
slips (a file edited, cut, copied to the wrong place), not forgery. ``sealed`` says that they were taken later.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from flatfed import forms
from flatfed.errors import DataError, absent
from flatfed.files import digest_file, misread, read_sealed, write_sealed
from flatfed.forms import named, whole

METRICS = "metrics.csv"
MODEL = "model.safetensors"
RECORD = "run.json"
#: Files of a finished run, the record last.
FILES = (METRICS, MODEL, RECORD)

#: Lines and record of a run as far as it is, beside its checkpoint: gone when it is finished.
LINES_SO_FAR, RECORD_SO_FAR = "metrics.so-far.csv", "run.so-far.json"

CONVERSION = "`python studies/convert_runs.py FOLDER`"
WHAT = "the record of a run"
AGAIN = "take the file as it was, or train the run again"


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """What made a run, and what it took. A field that is None is absent from the file: not known, or not the case.

    ``description`` is what was trained (:mod:`flatfed.runs.description`); ``images``: how many training and test images
    the data set had; digests are SHA-256. ``diverged_at``: the round whose numbers were not finite. ``rows``: clients
    at a time at most, as memory allowed; ``row``: length of a trained row, dead taps left out, ``parameters`` of the
    whole model. Times in seconds over all ``sessions``, memory in bytes. ``device`` to ``host`` and ``together`` (how
    many seeds trained in one process) are those of the last session.
    ``also``: what the other models of the algorithm come to. ``sealed``: "at conversion" (studies/convert_runs.py).
    """

    description: dict[str, Any]
    rounds_done: Annotated[int, whole(0)]
    diverged_at: Annotated[int, whole(1)] | None
    dataset_digest: str
    partition_digest: str
    description_digest: str | None = None
    versions: dict[str, int | str] | None = None
    weights_digest: str | None = None
    images: dict[str, int] | None = None
    probes: list[dict[str, Any]] | None = None
    executor: str | None = None
    rows: Annotated[int, whole(1)] | None = None
    row: Annotated[int, whole(1)] | None = None
    precision: str | None = None
    parameters: Annotated[int, whole(1)] | None = None
    local_steps: Annotated[int, whole(0)] | None = None
    gradient_evaluations: Annotated[int, whole(0)] | None = None
    stored_vectors: Annotated[int, whole(0)] | None = None
    spectral_gap: float | None = None
    seconds: float | None = None
    seconds_training: float | None = None
    seconds_evaluation: float | None = None
    peak_memory_bytes: Annotated[int, whole(0)] | None = None
    peak_device_memory_bytes: Annotated[int, whole(0)] | None = None
    client_state: str | None = None
    device: Annotated[str, named("device", ("cpu", "cuda"))] | None = None
    threads: Annotated[int, whole(1)] | None = None
    tf32: bool | None = None
    libraries: dict[str, str] | None = None
    host: dict[str, Any] | None = None
    together: Annotated[int, whole(1)] | None = None
    sessions: list[dict[str, Any]] = field(default_factory=list)
    also: dict[str, Any] = field(default_factory=dict)
    finished: str | None = None
    written: str | None = None
    files: dict[str, str] = field(default_factory=dict)
    sealed: str | None = None

    @property
    def name(self) -> str:
        """``<protocol>/<split>/<algorithm>/seed<k>``."""
        return run_name(self.description)

    @property
    def ended(self) -> bool:
        """Whether there is nothing more to come: all rounds are done, or it diverged."""
        return self.diverged_at is not None or self.rounds_done >= self.description["rounds"]

    @property
    def counted(self) -> dict[str, dict[str, int]]:
        """{name of the run's data set: {"train": images, "test": images}}, empty where the record does not say."""
        return {self.description["dataset"]["name"]: self.images} if self.images else {}

    def require(self, names: Iterable[str], where: str | os.PathLike[str]) -> None:
        """Refuse a record without one of the fields ``names``, which a record may lack; raises DataError."""
        for name in names:
            if getattr(self, name) is None:
                raise misread(where, WHAT, absent("key", name, forms.plain(self), str(where)), AGAIN)

    def check_files(self, folder: str | os.PathLike[str], *names: str) -> None:
        """Compare the files ``names`` in ``folder`` with those that this record was written with.

        :raises DataError: one of them differs, or cannot be read.
        """
        folder = Path(folder)
        for name in names:
            if name not in self.files:
                raise DataError(f"{folder / RECORD}: has no sum of {name}; it has: {', '.join(sorted(self.files))}")
            try:
                found = digest_file(folder / name)
            except OSError as problem:
                raise DataError(f"{folder / name}: cannot be read ({problem.strerror}); {AGAIN}") from None
            if found != self.files[name]:
                digests = f"SHA-256 {found[:12]}, recorded {self.files[name][:12]}"
                beside = f"{record_beside(name)} beside it was written with ({digests})"
                raise DataError(f"{folder / name}: is not the file that {beside}; {AGAIN}")


def run_name(description: dict[str, Any]) -> str:
    """Return ``<protocol>/<split>/<algorithm>/seed<k>`` of the run with this ``description``."""
    return "{protocol}/{split}/{algorithm}/seed{seed}".format(**description)


def write(path: str | os.PathLike[str], record: RunRecord, files: tuple[Path, ...]) -> None:
    """Write ``record`` to ``path``, whole, with a sum of its own and those of ``files``."""
    record = replace(record, files={file.name: digest_file(file) for file in files})
    write_sealed(path, forms.plain(record))


def read(path: str | os.PathLike[str]) -> RunRecord:
    """Return the record in the file ``path``.

    :raises FileNotFoundError: there is none.
    :raises DataError: it cannot be read, lacks what every record says, or is not what was written.
    """
    return read_sealed(_record, path, WHAT, AGAIN)


def _record(content: Any, where: str) -> RunRecord:
    record = forms.read(RunRecord, content, where)
    if not record.files or "code_digest" in content:
        raise DataError(f"of an earlier version of FlatFed; {CONVERSION} converts its runs")
    return record


def read_finished(folder: str | os.PathLike[str]) -> RunRecord:
    """Return the record of the finished run in ``folder``; DataError where there is none, or as :func:`read`."""
    try:
        return read(Path(folder) / RECORD)
    except FileNotFoundError:
        raise DataError(f"{folder}: not a finished run: it has no {RECORD}") from None


def record_beside(name: str) -> str:
    """Return the name of the record that lies beside the file ``name`` of a run, finished or not."""
    return RECORD_SO_FAR if name == LINES_SO_FAR else RECORD
