"""``flatfed import``: runs made where Snakemake is not, checked and put where Snakemake finds them done.

Checks that each run is finished and was made from the description, data, partition and code that the
configuration asks for here. If all are, copies them into results/, where Snakemake finds them done. Lists those in
whose place another run stands, leaves these alone, and exits with 2. A run without its model, as runs are published,
is trained again for an analysis; `table --runs` reads such runs in place.

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
from flatfed.errors import DataError, FlatFedError
from flatfed.experiment import Experiment, Run, run_specs
from flatfed.runs import identity
from flatfed.runs.paths import RunIds
from flatfed.runs.record import FILES, MODEL, RECORD, RunRecord

ARGUMENTS = [
    argument("folders", kinds.folder, "a run folder, or one that holds some", nargs="+", metavar="FOLDER"),
    flag("--replace", "put them in place of runs that are already there"),
    flag("--other-code", "accept runs that other source code trained"),
    arguments.CONFIG,
]


def run(options: argparse.Namespace) -> None:
    """Check every finished run under the folders against the configuration, then copy all of them into results/.

    Nothing is copied unless every run passes. Then a run that is there already is left alone, and so is one in whose
    place another stands, unless it is to be replaced.

    :raises DataError: none is found, a file is not the one of its record, a run is unfinished, or was made from another
        description, data, partition or code; or, once the others are in place, another stood in a run's place.
    """
    folders = [file.parent for file in run_folders.record_files(options.folders, RECORD)]
    if not folders:
        raise DataError(f"{', '.join(map(str, options.folders))}: no {RECORD} in there, so no finished run")
    runs = checked(configuration.load(options.config), folders, options.other_code)
    taken = [place for place in runs if options.replace or not place.exists()]
    same = [place for place, folder in runs.items() if place not in taken and is_same(place, folder)]
    for place in taken:
        bring(runs[place], place)
        print(f"{place}: accepted")
    forget([f"{place}/{name}" for place in taken for name in FILES])
    print(f"{len(taken)} runs accepted; {len(same)} were there already")
    if kept := [f"{place} exists already ({runs[place]})" for place in runs if place not in taken + same]:
        raise DataError("\n".join([*kept, f"{len(kept)} runs were not taken; --replace puts them in these places"]))


def checked(experiment: Experiment, folders: list[Path], other_code: bool) -> dict[Path, Path]:
    """Return where the finished runs in ``folders`` belong, {place: folder}, each held against the configuration.

    :raises DataError: some are none of its runs; the message names them, and all partitions that are not here.
    """
    places: dict[Path, Path] = {}
    problems: list[str] = []
    lacking: dict[str, None] = {}
    for folder in folders:
        try:
            run, record = read(experiment, folder)
            twin = places.setdefault(Path(run.path), folder)
            if twin is not folder:
                raise DataError(f"{folder}: is {run.path}, and so is {twin}; name one of them")
            if Path(run.partition).exists():
                check_made_from(folder / RECORD, record, run.partition, other_code)
            else:
                lacking[run.partition] = None
        except FlatFedError as problem:
            problems.append(str(problem))
    if lacking:
        others = "`python -m flatfed table TABLE --runs FOLDER` reads published runs without"
        command = shlex.join(["snakemake", "--cores", "1", *lacking])
        problems.append(f"{len(lacking)} files are needed to check the runs ({others}); make them first: {command}")
    if problems:
        raise DataError("\n".join(problems))
    return places


def read(experiment: Experiment, folder: Path) -> tuple[Run, RunRecord]:
    """Return the finished run in ``folder``, held against this configuration but for its data and code.

    :raises DataError: it is not whole, or something that decides its numbers is not what the configuration asks for.
    """
    file = folder / RECORD
    record = run_folders.read(file)
    if (folder / MODEL).is_file():  # published runs have none, nor have those whose model no analysis was to read
        record.check_files(folder, MODEL)
    run = run_specs.run(experiment, **vars(RunIds.of_description(record.description)))
    if different := identity.difference_texts(record.description, run.description):
        raise DataError(f"{file}: not the run that the configuration describes: {'; '.join(different)}")
    if not record.ended:
        raise DataError(f"{folder}: unfinished: {record.rounds_done} of {run.description['rounds']} rounds are done")
    return run, record


def check_made_from(file: Path, record: RunRecord, partition: str, other_code: bool) -> None:
    """Raise DataError where data, partition or, unless ``other_code``, versions of the code are not those here."""
    try:
        identity.check_data(str(file), record, partition)
    except DataError as error:
        raise DataError(f"{error}, or make the data again {run_folders.IN_ORDER}") from None
    here = versions.of_run(record.description)
    if record.versions != here and not other_code:
        was, now = json.dumps(record.versions), json.dumps(here)
        raise DataError(f"{file}: versions is {was}, but here it is {now}; --other-code accepts it")


def is_same(place: Path, folder: Path) -> bool:
    """Return whether the run in ``place`` is whole and the one in ``folder``."""
    with contextlib.suppress(OSError, DataError):
        return run_folders.read(place / RECORD) == run_folders.read(folder / RECORD)
    return False


def bring(folder: Path, place: Path) -> None:
    """Copy the files of a run into its ``place``, newer than anything they were made from.

    They are copied beside the place first: what stands there goes when its successor is whole.
    """
    staged = place.with_name(f".{place.name}.importing")
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir(parents=True)
    for file in (folder / name for name in FILES):
        if file.is_file():
            shutil.copyfile(file, staged / file.name)
    shutil.rmtree(place, ignore_errors=True)
    staged.rename(place)


def forget(files: list[str]) -> None:
    """Have Snakemake drop what it recorded of earlier jobs for ``files``: it would compare those with ours."""
    if not files or not Path(".snakemake").is_dir():
        return
    command = [sys.executable, "-m", "snakemake", "--cleanup-metadata", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # Of a run that was never made here nothing was recorded: Snakemake reports that, and drops the others all the same.
    if done.returncode and "because the metadata was not present" not in done.stderr:
        print(f"snakemake --cleanup-metadata failed, so it may make the runs again:\n{done.stderr}", file=sys.stderr)
