"""``flatfed import``.

Checks that the runs are finished and match the description, data, partition and code here. If all do, copies them into
results/. Existing other runs are listed and kept, with exit status 2. Runs without a model, such as published ones, are
trained again for an analysis; `table --runs` reads them in place.

example:
  python -m flatfed import from-gpu-host/results/preview/runs
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from flatfed.commands import arguments, configuration, run_folders
from flatfed.commands.arguments import argument, flag
from flatfed.engine import versions
from flatfed.errors import DataError, Held
from flatfed.files import read_json, write_sealed
from flatfed.plan import Experiment, Run
from flatfed.runs import lock
from flatfed.runs.record import FILES, MODEL, RECORD, RunRecord
from flatfed.tables.readings import read_all

ARGUMENTS = [
    argument("folders", arguments.folder, "run folder, or folder with runs", nargs="+", metavar="FOLDER"),
    flag("--replace", "replace existing runs"),
    flag("--other-code", "accept runs of other source code"),
    arguments.CONFIG,
]


def run(options: argparse.Namespace) -> None:
    """Copy all runs; DataError if there is none, one fails a check (no copies), or another run is in its place."""
    folders = [folder for top in options.folders for folder in run_folders.find(top)]
    if not folders:
        raise DataError(f"{', '.join(map(str, options.folders))}: no {RECORD} in there, so no finished run")
    runs = read_all(partial(check, configuration.load(options.config), options.other_code), folders)
    if missing := dict.fromkeys(run.partition for run, _ in runs if not Path(run.partition).exists()):
        alternative = "`python -m flatfed table TABLE --runs FOLDER` needs none"
        command = shlex.join(["snakemake", "--cores", "1", *missing])
        raise DataError(f"{len(missing)} partitions are missing ({alternative}); make them first: {command}")
    accepted, conflicts = [], []
    for folder, (run, record) in zip(folders, runs, strict=True):
        target = Path(run.path)
        try:
            if options.replace or not target.exists():
                copy(folder, target, record)
                accepted.append(target)
                print(f"{target}: accepted" + ("" if record.versions else ", versions unknown"))
                if record.changed_sources:
                    print(f"{target}: warning: its sources are {record.changed_sources}", file=sys.stderr)
            elif not is_same(target, record):
                conflicts.append(f"{target} exists already ({folder})")
        except Held as training:
            conflicts.append(str(training))
    forget([f"{target}/{name}" for target in accepted for name in FILES])
    print(f"{len(accepted)} runs accepted; {len(runs) - len(accepted) - len(conflicts)} existed already")
    if conflicts:
        summary = f"{len(conflicts)} runs were not accepted; --replace replaces the old, unless a process trains them"
        raise DataError("\n".join([*conflicts, summary]))


def check(experiment: Experiment, other_code: bool, folder: Path) -> tuple[Run, RunRecord]:
    """Return the run in ``folder``, checked as far as its partition exists.

    :raises DataError: it is damaged, unfinished, another run, or of other data or, unless ``other_code``, versions.
    """
    file, record = folder / RECORD, run_folders.read_with_metrics(folder)
    if (folder / MODEL).is_file():
        record.check_files(folder, MODEL)
    run = experiment.run(**vars(record.config.ids))
    if different := record.config.deciding_differences(run.config):
        raise DataError(f"{file}: not the run that the configuration describes: {'; '.join(different)}")
    if not record.ended:
        raise DataError(f"{file}: unfinished: {record.rounds_done} of {run.config.rounds} rounds are done")
    if Path(run.partition).exists():
        record.check_data(str(file), run.partition)
    if not other_code and (changes := versions.changes(record.config, record.versions)):
        raise DataError(f"{file}: other versions of the code: {changes}; --other-code accepts it")
    return run, record


def is_same(target: Path, record: RunRecord) -> bool:
    """Return whether ``target`` contains the undamaged run of ``record``, however it was imported."""
    with contextlib.suppress(DataError):
        there = run_folders.read_with_metrics(target)
        return there.model_copy(update={"imported": record.imported}) == record
    return False


def copy(folder: Path, target: Path, record: RunRecord) -> None:
    """Copy the files of a run to ``target``; replace an existing run after the copy is complete.

    The record of a run of other code than the present gets a mark: tables may average it with others.

    :raises Held: a process trains in ``target``.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    names = [name for name in FILES if (folder / name).is_file()]
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.importing-", dir=target.parent) as staged:
        for name in names:
            shutil.copyfile(folder / name, Path(staged, name))
        if versions.changes(record.config, record.versions):
            write_sealed(Path(staged, RECORD), {**read_json(folder / RECORD), "imported": "other code"})
        with lock.held(target):
            for name in names:  # a kill leaves no gap: each file is the old or the new one
                Path(staged, name).replace(target / name)
            for path in target.iterdir():
                if path.is_dir():
                    shutil.rmtree(path)
                elif path.name not in (lock.NAME, *names):
                    path.unlink()


def forget(files: list[str]) -> None:
    """Remove Snakemake's metadata of earlier jobs for ``files``, which would cause reruns."""
    if not files or not Path(".snakemake").is_dir():
        return
    command = [sys.executable, "-m", "snakemake", "--cleanup-metadata", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # Snakemake fails for files without metadata, after it has cleaned the others.
    if done.returncode and "because the metadata was not present" not in done.stderr:
        print(f"snakemake --cleanup-metadata failed; it may train the runs again:\n{done.stderr}", file=sys.stderr)
