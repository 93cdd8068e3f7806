"""Folders that hold runs, finished or not: read, held against each other, and what the configuration has of them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flatfed import experiment
from flatfed.commands import configuration, run_record
from flatfed.errors import DataError
from flatfed.experiment import Experiment
from flatfed.papers.quantity import TEST
from flatfed.runs import identity
from flatfed.runs import record as records
from flatfed.runs.places import DEFAULT, PublishedPlaces, RunIds, without_label
from flatfed.runs.record import LINES_SO_FAR, METRICS, RECORD, RECORD_SO_FAR, RunRecord
from flatfed.tables.own_setting import Trained
from flatfed.tables.readings import history_of


@dataclass(frozen=True)
class FoundRuns:
    """Runs of one ``scale``: their records, by folder. ``places`` knows these folders, ``path`` is where they are."""

    path: Path
    scale: str
    records: Mapping[str, RunRecord]
    places: PublishedPlaces

    @property
    def protocols(self) -> set[str]:
        """The protocols that the runs are of."""
        return {record.description["protocol"] for record in self.records.values()}

    @property
    def summary(self) -> str:
        """How many runs there are, of which protocols and scale."""
        return f"its {len(self.records)} runs are of {', '.join(sorted(self.protocols))}, {self.scale} scale"


def record_files(folders: Iterable[Path], *names: str, tuning: bool = False) -> list[Path]:
    """Return the files called ``names`` in ``folders``, at any depth; those of tuning's runs only with ``tuning``.

    What was replaced by another run lies in a hidden folder beside it, and is left out.
    """
    files = []
    for folder in folders:
        for file in (file for name in names for file in sorted(folder.rglob(name))):
            above = file.relative_to(folder).parent.parts
            if (tuning or "tuning" not in above) and not any(part.startswith(".") for part in above):
                files.append(file)
    return list(dict.fromkeys(files))


def finished_in(path: Path) -> FoundRuns:
    """Return the finished runs in the folder ``path``, as they are published.

    :raises DataError: there are none, one is damaged or not where its record says, or two do not belong together.
    """
    files = record_files([path], RECORD)
    if not files:
        raise DataError(f"{path}: no {RECORD} in there, so no published run")
    return _together(path, {file: _read(file) for file in files})


def at_paper_scale(folders: Iterable[Path]) -> FoundRuns:
    """Return the runs of paper scale in ``folders``, finished or not; tuning's are no results.

    :raises DataError: as :func:`finished_in`.
    """
    found: dict[Path, RunRecord] = {}
    folders = list(folders)
    for folder in folders:
        if not folder.is_dir():
            raise DataError(f"{folder}: there is no such folder")
        _check_records(folder)
        there = {}
        for file in record_files([folder], RECORD, RECORD_SO_FAR):
            if file.name == RECORD_SO_FAR and is_finished(file.parent):
                continue  # left over
            record = _read(file)
            record.require(("device", "threads", "host", "seconds"), file)
            if record.description["scale"] == "paper":
                there[file] = record
        if not there:
            raise DataError(f"{folder}: no {RECORD} or {RECORD_SO_FAR} of a run at paper scale in there")
        found |= there
    return _together(Path(", ".join(map(str, folders))), found)


def _check_records(folder: Path) -> None:
    """Refuse lines of a run beside which no record lies; a run that writes its first ones is waited for."""
    for wait in (1, 0):
        lines = record_files([folder], METRICS, LINES_SO_FAR)
        alone = [file for file in lines if not any((file.parent / name).is_file() for name in (RECORD, RECORD_SO_FAR))]
        if not alone:
            return
        time.sleep(wait)
    raise DataError(f"{alone[0]}: lies there without the record of its run ({RECORD} or {RECORD_SO_FAR})")


def is_finished(folder: str | Path) -> bool:
    """Return whether the run in ``folder`` is finished."""
    return Path(folder, RECORD).is_file()


def _read(file: Path) -> RunRecord:
    """Return the record in ``file``; DataError where it is damaged, or not where its description says."""
    record = records.read(file)
    run_record.check_description(record, file)
    identity.check_folder(file.parent, record)
    return record


def _together(path: Path, found: Mapping[Path, RunRecord]) -> FoundRuns:
    """Return the runs ``found`` below ``path``, given as file and record, as one object.

    :raises DataError: two are the same run, of two scales, or were trained on different data or partitions.
    """
    files: dict[str, Path] = {}
    first: dict[tuple[Any, ...], tuple[str, Path]] = {}
    for file, record in found.items():
        ids = RunIds.of(record.description)
        other = files.setdefault(DEFAULT.run(ids), file)
        if other != file:
            raise DataError(f"{file}: is the same run as {other}; take one of them away")
        data = record.description["dataset"]["name"]
        dealt = data, without_label(ids.protocol), ids.split, ids.seed
        for key, value, among, why in (
            ("scale", ids.scale, (), "the two scales are published apart"),
            ("dataset_digest", record.dataset_digest, (data,), f"they were trained on different data, both {data}"),
            (
                *("partition_digest", record.partition_digest, dealt),
                f"they were trained on different partitions of {ids.split}, seed {ids.seed}",
            ),
        ):
            expected, where = first.setdefault((key, *among), (value, file))
            if value != expected:
                raise DataError(f"{file}: {key} is {value[:12]}, but {where} has {expected[:12]}: {why}")
    places = PublishedPlaces(str(path / "results"), folders={name: str(file.parent) for name, file in files.items()})
    return FoundRuns(path, ids.scale, {str(file.parent): record for file, record in found.items()}, places)


def described_for(runs: FoundRuns, config: configuration.Parts) -> Experiment:
    """Return what the configuration describes, with the seeds and in the folders of ``runs``."""
    seeds = sorted({record.description["seed"] for record in runs.records.values()})
    asked = {key: value for key, value in configuration.read(config).items() if key != "seeds_together"}
    return experiment.load(configuration.HOME, {**asked, "seeds": seeds}, runs.places)


def as_far_as_trained(runs: FoundRuns, described: Experiment) -> list[Trained]:
    """Return ``runs`` with their lines, each with the accuracy that its protocol reads where that is ``described``.

    :raises DataError: lines are not those that their record was written with, or a run is there under two names.
    """
    first: dict[tuple[Any, ...], Trained] = {}
    for folder, record in runs.records.items():
        run = _trained(described, record, Path(folder))
        other = first.setdefault((run.ids, run.setting, run.precision), run)
        if other is not run:
            raise DataError(
                f"{run.folder}: is the same run as {other.folder}, under another name; take one of them away"
            )
    return list(first.values())


def _trained(described: Experiment, record: RunRecord, folder: Path) -> Trained:
    name = METRICS if is_finished(folder) else LINES_SO_FAR
    try:
        history = history_of(folder, record, ("round", TEST), name, every=True)
    except DataError:
        if name == METRICS:
            raise
        time.sleep(1)  # it is being trained: its lines were replaced, and its record not yet
        record = records.read(folder / RECORD_SO_FAR)
        history = history_of(folder, record, ("round", TEST), name, every=True)
    run = Trained(record, history, str(folder))
    protocol = described.catalog.protocols.get(run.ids.protocol)
    accuracy = described.values("paper", protocol.id)["accuracy"] if protocol else run.accuracy
    return replace(run, accuracy=accuracy) if accuracy in history else run
