"""``flatfed export``: finished runs, packed for another machine, where ``flatfed import`` takes them."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

from flatfed.commands import bundle, configuration
from flatfed.commands.plan import state
from flatfed.commands.run_folder import run_of
from flatfed.errors import DataError
from flatfed.experiment import Experiment, Run, selection
from flatfed.files import digest_file, write_json, write_whole
from flatfed.runs import record


def pack(wanted: list[str], config: configuration.Parts, out: Path, *, scale: str | None) -> None:
    """Write the finished runs of ``wanted``, tables or run folders (none: config.yaml's tables), to ``out``.

    ``out`` is a new folder, or an archive by its ending; either appears whole or not at all.

    :raises ConfigError: there is no such table.
    :raises DataError: ``out`` exists, or nothing of this is finished.
    """
    experiment = configuration.load(config)
    if out.exists():
        raise DataError(f"{out}: exists already; an export goes to a new place")
    runs = wanted_runs(experiment, wanted, scale or selection.scale_of(experiment, wanted))
    finished = [run for run in runs if state(run) == "finished"]
    if not finished:
        raise DataError(f"none of {len(runs)} runs is finished as the configuration describes it; nothing to export")
    manifest = {"format": 1, "runs": {run.path: digests(Path(run.path)) for run in finished}}
    mode = bundle.mode_of(out)
    if mode is None:
        _write_folder(out, manifest)
    else:
        _write_archive(out, manifest, mode)
    bare = sum(record.MODEL not in files for files in manifest["runs"].values())
    said = [f"{out}: {len(finished)} runs", f"{bare} of them without their models" if bare else ""]
    left = len(runs) - len(finished)
    print("; ".join(filter(None, [*said, f"{left} are not finished" if left else ""])))


def wanted_runs(experiment: Experiment, wanted: list[str], scale: str) -> list[Run]:
    """Return the runs of tables and run folders, each once."""
    tables = selection.named(experiment, [name for name in wanted if "/" not in name])
    runs = [run_of(experiment, folder) for folder in wanted if "/" in folder]
    for name, columns in tables if wanted else experiment.selected(scale):
        runs += experiment.table_runs(scale, name, columns)
    return list({run.path: run for run in runs}.values())


def digests(folder: Path) -> dict[str, str]:
    """Return file name -> SHA-256 of a run; DataError where it has no metrics. Its model may not have been kept."""
    there = [name for name in record.FILES if (folder / name).is_file()]
    if record.METRICS not in there:
        raise DataError(f"{folder}: {record.METRICS} is missing; such a run would not be taken elsewhere")
    return {name: digest_file(folder / name) for name in there}


def _files(manifest: dict) -> list[str]:
    return [f"{run}/{name}" for run, names in manifest["runs"].items() for name in names]


def _write_folder(out: Path, manifest: dict) -> None:
    """Copy the runs into a folder beside ``out`` and rename it: a kill in between leaves no half of an export."""
    staged = out.with_name(f".{out.name}.part")
    shutil.rmtree(staged, ignore_errors=True)
    for name in _files(manifest):
        (staged / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(name, staged / name)
    write_json(staged / bundle.MANIFEST, manifest)
    staged.rename(out)


def _write_archive(out: Path, manifest: dict, mode: str) -> None:
    listing = out.with_name(f".{out.name}.manifest")
    write_json(listing, manifest)
    try:
        with write_whole(out) as file, tarfile.open(fileobj=file, mode=mode) as archive:
            archive.add(listing, bundle.MANIFEST)
            for name in _files(manifest):
                archive.add(name, name)
    finally:
        listing.unlink()
