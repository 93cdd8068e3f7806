"""Folders of runs, and the rule by which a run in them serves as a requested one."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

from flatfed.errors import DataError
from flatfed.runs import record as records
from flatfed.runs import versions
from flatfed.runs.paths import RunIds, analyses_beside, without_label
from flatfed.runs.record import RECORD, RECORD_SO_FAR, RunRecord, read_again
from flatfed.runs.run import Run
from flatfed.runs.run_config import RunConfig


class Store:
    """The runs in results/ and in the folders of `published:`; ``alone``: in ``folders`` without results/.

    ``so_far``: unfinished runs serve, too. ``forced``: files and rules after -R of Snakemake, whose runs are trained.
    ``refused``: folder -> the reason why its run does not serve, of damaged runs and of runs that were requested.
    ``damaged``: the folders of damaged runs.
    """

    def __init__(
        self,
        folders: Sequence[str | os.PathLike[str]] = (),
        *,
        alone: bool = False,
        so_far: bool = False,
        forced: Collection[str] = (),
    ):
        self.folders, self.alone, self.so_far = folders, alone, so_far
        self.forced = {*forced, *map(os.path.dirname, forced)}
        self.refused: dict[str, str] = {}
        self.damaged: list[str] = []

    @cached_property
    def records(self) -> dict[str, RunRecord]:
        """The records by run folder: folder by folder, in each finished runs first, then long, then early ones."""
        found: dict[str, RunRecord] = {}
        for folder in self.folders:
            of_folder = {}
            for path in run_folders(folder, self.so_far):
                try:
                    of_folder[str(path)] = read_again(partial(read, path), self.so_far)
                except DataError as problem:
                    self.refused[str(path)] = str(problem)
                    self.damaged.append(str(path))
            found |= dict(sorted(of_folder.items(), key=lambda item: rank(item[1])))
        return found

    @cached_property
    def _folders_by_ids(self) -> dict[RunIds, list[str]]:
        folders: dict[RunIds, list[str]] = {}
        for folder, record in self.records.items():
            if record.ended or self.so_far:
                folders.setdefault(_unlabelled(record.config.ids), []).append(folder)
        if self.refused and not self.alone:
            raise DataError("\n".join(f"published: {problem}" for problem in self.refused.values()))
        return folders

    def find(self, run: Run, analysis: str = "", images: str | None = None, precision: str | None = None) -> Run:
        """Return ``run`` with the folders in which it is: in results/, else of the first run that serves.

        A run serves if its deciding settings and versions are the requested ones; that of a variant of the protocol may
        differ by precision and label. Of a folder, the first finished run serves; of several folders, one with a run in
        the requested precision, then the first. Without such a run: in results/ or, in a store ``alone``, ``absent``.
        ``analysis``: the file of its analyses without which a published run does not serve. ``images``: digest of the
        images here. ``precision``: that of the runs that may serve.

        :raises DataError: a published run is damaged, or of other images or another partition than those here.
        """
        nowhere = replace(run, absent=True) if self.alone else run
        folders = [] if {"train", run.path} & self.forced else self._folders_by_ids.get(_unlabelled(run.ids), [])
        if not folders or (not self.alone and state(run) == "finished"):
            return nowhere
        serving = []
        for folder in folders:
            config = run.config.in_form_of(self.records[folder].config)
            location = replace(run, path=folder, analysis_folder=analyses_beside(folder), config=config)
            if precision in (None, config.precision) and self._serves(location, analysis):
                serving.append(location)
        if not serving:
            return nowhere

        def drawback(location: Run) -> tuple[bool, bool]:
            return not self.records[location.path].ended, location.config.precision != run.config.precision

        # The records are in order: the first of each listed folder, of these the first without a drawback.
        folders_first = [next(of_folder) for _, of_folder in itertools.groupby(serving, self._index)]
        found = min(folders_first, key=drawback)
        unused = [location.path for location in serving if location is not found]
        self.refused |= dict.fromkeys(unused, f"not used: {found.path} is used")
        if self.alone:
            return replace(found, partition=None)
        _check_data(found, self.records[found.path], images)
        return found

    def _index(self, run: Run) -> int:
        """Return the index of the listed folder that contains ``run``."""
        return next(index for index, top in enumerate(self.folders) if Path(run.path).is_relative_to(top))

    def _serves(self, run: Run, analysis: str) -> bool:
        """Return whether the recorded run in the folder of ``run`` serves as it; note the reason if it does not."""
        record = self.records[run.path]
        if analysis and not self.alone and not Path(run.analysis_folder, analysis).exists():
            return False
        other_settings = record.config.deciding_differences(run.config)
        reasons = differences(record, run.config)
        if analysis and not self.alone and not reasons:
            texts = run.analysis_differences(f"{run.analysis_folder}/{analysis}")
            reasons = [f"{analysis}: {text}" for text in texts]
        if reasons and (record.config.ids == run.ids or not other_settings):  # else a variant
            self.refused[run.path] = f"not the requested run: {'; '.join(reasons)}"
            if not self.alone:
                print(f"published: {run.path}: {self.refused[run.path]}", file=sys.stderr)
        return not reasons


def run_folders(top: str | os.PathLike[str], so_far: bool = False) -> Iterator[Path]:
    """Yield the folders of finished runs in ``top``; ``so_far``: also those of others. No hidden runs.

    Symbolic links are followed, and a folder with several paths is listed once.
    """
    visited: set[str] = set()
    for folder, below, files in os.walk(top, followlinks=True):
        new = (real := os.path.realpath(folder)) not in visited
        visited.add(real)
        below[:] = sorted(name for name in below if new and name[0] != ".")
        if new and (RECORD in files or (so_far and RECORD_SO_FAR in files)):
            yield Path(folder)


def check_has_runs(folder: str | os.PathLike[str], where: str = "--runs", so_far: bool = True) -> None:
    """Raise DataError if ``folder`` is absent or contains no finished run; ``so_far``: not even an unfinished one."""
    if not os.path.isdir(folder):
        raise DataError(f"{where}: there is no folder {str(folder)!r} ({Path(folder).absolute()})")
    if next(run_folders(folder, so_far), None) is None:
        records = f"{RECORD} or {RECORD_SO_FAR}" if so_far else RECORD
        raise DataError(f"{where}: {str(folder)!r} contains no run, no folder with {records}")


def read(folder: Path) -> RunRecord:
    """Return the record of the run in ``folder``, also if it is unfinished.

    :raises DataError: the record is missing or damaged, or the metrics are not those of the record.
    """
    so_far = folder / RECORD_SO_FAR
    unfinished = so_far.exists() and not (folder / RECORD).exists()
    record = records.read(so_far) if unfinished else records.read_finished(folder)
    record.check_files(folder, record.metrics)
    return record


def rank(record: RunRecord) -> tuple[bool, int, str]:
    """Return the place of a run: finished ones first, then long ones, then early ones."""
    return not record.ended, -record.rounds_done, record.finished or ""


def differences(record: RunRecord, requested: RunConfig) -> list[str]:
    """Return the differences of deciding settings or, without any, of versions between two runs, in words."""
    changes = versions.changes(record.config, record.versions)
    return record.config.deciding_differences(requested) or [changes] * bool(changes)


def state(run: Run) -> str:
    """Return the state of a run: "finished", "begun", "stale", "damaged" or "missing".

    "stale": of other settings or versions; "damaged": run.json is not a record.
    """
    try:
        record = records.read(run.record)
    except FileNotFoundError:
        folder = Path(run.path)
        return "begun" if folder.is_dir() and any(folder.iterdir()) else "missing"
    except DataError:
        return "damaged"
    if differences(record, run.config):
        return "stale"
    return "finished" if record.ended else "begun"


def _unlabelled(ids: RunIds) -> RunIds:
    return replace(ids, protocol=without_label(ids.protocol))


def _check_data(run: Run, record: RunRecord, images: str | None) -> None:
    """Raise DataError if a published ``run`` was trained on other images or another partition than those here.

    Images that are not here yet are refused if the folder has an order file, which their source does not name.
    """
    files = (folder / "orders" / f"{run.dataset}.npz" for folder in Path(run.path).parents)
    order = next((file for file in files if file.is_file()), None)
    if images != record.dataset_digest and (images or order):
        absent = f"images of {run.dataset!r} are not here yet, and their source names no order"
        other = f"trained on other images of {run.dataset!r}, or in another order" if images else absent
        remedy = f"add `order: {order or 'FILE'}` to their source, `data: {{{run.dataset}: ...}}` in config.yaml"
        effect = "runs of another order in results/ are then trained again (docs/running.md); or remove the folder"
        raise DataError(f"published: {run.path}: {other}. To put them into the order of this run, {remedy}; {effect}")
    if not Path(run.partition).exists():
        return
    from flatfed.data import partition as partitions  # imports NumPy

    partition = partitions.load(run.partition)
    current = {**run.config.partition.as_written(), "seed": run.seed, "dataset_digest": record.dataset_digest}
    if partition.spec == current and partition.digest != record.partition_digest:
        digests = f"{record.partition_digest[:12]}, not {partition.digest[:12]} as {run.partition}"
        raise DataError(f"published: {run.path}: trained on another partition ({digests}); remove it from the folder")
