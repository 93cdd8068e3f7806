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
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from flatfed.commands import arguments, configuration, kinds, run_folders
from flatfed.commands.arguments import argument, flag
from flatfed.engine import versions
from flatfed.errors import DataError, FlatFedError, Held
from flatfed.files import read_json, write_sealed
from flatfed.plan import Experiment, Run, run_specs
from flatfed.runs import identity, lock
from flatfed.runs.record import FILES, MODEL, RECORD, RunRecord, read_finished

ARGUMENTS = [
    argument("folders", kinds.folder, "run folder, or folder with runs", nargs="+", metavar="FOLDER"),
    flag("--replace", "replace existing runs"),
    flag("--other-code", "accept runs of other source code"),
    arguments.CONFIG,
]


def run(options: argparse.Namespace) -> None:
    """Copy all runs; DataError if there is none, one fails a check (no copies), or another run is in its place."""
    folders = [file.parent for file in run_folders.record_files(options.folders, RECORD)]
    if not folders:
        raise DataError(f"{', '.join(map(str, options.folders))}: no {RECORD} in there, so no finished run")
    sources = checked(configuration.load(options.config), folders, options.other_code)
    accepted, conflicts = [], []
    for target, folder in sources.items():
        if options.replace or not target.exists():
            try:
                copy(folder, target)
                accepted.append(target)
                print(f"{target}: accepted")
            except Held as training:
                conflicts.append(str(training))
        elif not is_same(target, folder):
            conflicts.append(f"{target} exists already ({folder})")
    forget([f"{target}/{name}" for target in accepted for name in FILES])
    print(f"{len(accepted)} runs accepted; {len(sources) - len(accepted) - len(conflicts)} existed already")
    if conflicts:
        summary = f"{len(conflicts)} runs were not accepted; --replace replaces the old, unless a process trains them"
        raise DataError("\n".join([*conflicts, summary]))


def checked(experiment: Experiment, folders: list[Path], other_code: bool) -> dict[Path, Path]:
    """Return {folder in results/: folder} of ``folders``; DataError with all failed runs and missing partitions."""
    sources: dict[Path, Path] = {}
    problems: list[str] = []
    missing: dict[str, None] = {}
    for folder in folders:
        try:
            run, record = read(experiment, folder)
            twin = sources.setdefault(Path(run.path), folder)
            if twin is not folder:
                raise DataError(f"{folder}: is {run.path}, and so is {twin}; name one of them")
            if Path(run.partition).exists():
                check_data_and_code(folder / RECORD, record, run.partition, other_code)
            else:
                missing[run.partition] = None
        except FlatFedError as problem:
            problems.append(str(problem))
    if missing:
        alternative = "`python -m flatfed table TABLE --runs FOLDER` needs none"
        command = shlex.join(["snakemake", "--cores", "1", *missing])
        problems.append(f"{len(missing)} partitions are missing ({alternative}); make them first: {command}")
    if problems:
        raise DataError("\n".join(problems))
    return sources


def read(experiment: Experiment, folder: Path) -> tuple[Run, RunRecord]:
    """Return the run in ``folder``; DataError if it is damaged, unfinished or another run."""
    file = folder / RECORD
    record = run_folders.read_checking_metrics(file)
    if (folder / MODEL).is_file():
        record.check_files(folder, MODEL)
    run = run_specs.run(experiment, **vars(record.config.ids))
    if different := identity.deciding_differences(record.config, run.config):
        raise DataError(f"{file}: not the run that the configuration describes: {'; '.join(different)}")
    if not record.ended:
        raise DataError(f"{folder}: unfinished: {record.rounds_done} of {run.config.rounds} rounds are done")
    return run, record


def check_data_and_code(file: Path, record: RunRecord, partition: str, other_code: bool) -> None:
    """Raise DataError if data, partition or, unless ``other_code``, versions of the code differ."""
    try:
        identity.check_data(str(file), record, partition)
    except DataError as error:
        raise DataError(f"{error}, or make the data again. {run_folders.ORDER_HINT}") from None
    here = versions.of_run(record.config, [record.versions or {}])
    if record.versions != here and not other_code:
        was, now = json.dumps(record.versions), json.dumps(here)
        raise DataError(f"{file}: versions is {was}, but here it is {now}; --other-code accepts it")


def is_same(target: Path, folder: Path) -> bool:
    """Return whether both folders contain the same undamaged run."""
    with contextlib.suppress(OSError, DataError):
        one, other = (run_folders.read_checking_metrics(place / RECORD) for place in (target, folder))
        unmarked = {"imported": None}
        return one.model_copy(update=unmarked) == other.model_copy(update=unmarked)
    return False


def copy(folder: Path, target: Path) -> None:
    """Copy the files of a run to ``target``; replace an existing run after the copy is complete.

    The record of a run of other code than the present gets a mark: tables may average it with others.

    :raises Held: a process trains in ``target``.
    """
    staged = target.with_name(f".{target.name}.importing")
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir(parents=True)
    for file in (folder / name for name in FILES):
        if file.is_file():
            shutil.copyfile(file, staged / file.name)
    record = read_finished(staged)
    if versions.changes(record.config, record.versions):
        write_sealed(staged / RECORD, {**read_json(staged / RECORD), "imported": "other code"})
    try:
        with lock.held(target):
            copied = [name for name in FILES if (staged / name).is_file()]
            for name in copied:  # a kill leaves no gap: each file is the old or the new one
                (staged / name).replace(target / name)
            for path in target.iterdir():
                if path.is_dir():
                    shutil.rmtree(path)
                elif path.name not in (lock.NAME, *copied):
                    path.unlink()
    finally:
        shutil.rmtree(staged)


def forget(files: list[str]) -> None:
    """Remove Snakemake's metadata of earlier jobs for ``files``, which would cause reruns."""
    if not files or not Path(".snakemake").is_dir():
        return
    command = [sys.executable, "-m", "snakemake", "--cleanup-metadata", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # Snakemake fails for files without metadata, after it has cleaned the others.
    if done.returncode and "because the metadata was not present" not in done.stderr:
        print(f"snakemake --cleanup-metadata failed; it may train the runs again:\n{done.stderr}", file=sys.stderr)
