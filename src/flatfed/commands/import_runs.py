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
from dataclasses import dataclass
from pathlib import Path

from flatfed.commands import arguments, configuration, kinds, run_folders
from flatfed.commands.arguments import argument, flag
from flatfed.engine import versions
from flatfed.errors import DataError, FlatFedError
from flatfed.experiment import Experiment, Run, run_specs
from flatfed.runs import identity
from flatfed.runs.places import RunIds
from flatfed.runs.record import FILES, MODEL, RECORD, RunRecord

ARGUMENTS = [
    argument("folders", kinds.folder, "a run folder, or one that holds some", nargs="+", metavar="FOLDER"),
    flag("--replace", "put them in place of runs that are already there"),
    flag("--other-code", "accept runs that other source code trained"),
    arguments.CONFIG,
]


@dataclass(frozen=True)
class Arrival:
    """A finished run that is to be imported: where it lies, its record, and the ``run`` of this configuration it is."""

    folder: Path
    record: RunRecord
    run: Run

    @property
    def place(self) -> Path:
        """Where it belongs."""
        return Path(self.run.path)

    @property
    def is_there(self) -> bool:
        """Whether the run in its place is the same one and whole."""
        with contextlib.suppress(OSError, DataError):
            return run_folders.read(self.place / RECORD) == self.record
        return False


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
    arrivals = checked(configuration.load(options.config), folders, options.other_code)
    taken = [arrival for arrival in arrivals if options.replace or not arrival.place.exists()]
    same = [arrival for arrival in arrivals if arrival not in taken and arrival.is_there]
    for arrival in taken:
        bring(arrival)
        print(f"{arrival.place}: accepted")
    forget([f"{arrival.place}/{name}" for arrival in taken for name in FILES])
    print(f"{len(taken)} runs accepted; {len(same)} were there already")
    if kept := [f"{run.place} exists already ({run.folder})" for run in arrivals if run not in taken + same]:
        raise DataError("\n".join([*kept, f"{len(kept)} runs were not taken; --replace puts them in these places"]))


def checked(experiment: Experiment, folders: list[Path], other_code: bool) -> list[Arrival]:
    """Return the finished runs in ``folders``, each held against the configuration.

    :raises DataError: some are none of its runs; the message names them, and all partitions that are not here.
    """
    arrivals: dict[Path, Arrival] = {}
    problems: list[str] = []
    lacking: dict[str, None] = {}
    for folder in folders:
        try:
            arrival = read(experiment, folder)
            twin = arrivals.setdefault(arrival.place, arrival)
            if twin is not arrival:
                raise DataError(f"{folder}: is {arrival.place}, and so is {twin.folder}; name one of them")
            if Path(arrival.run.partition).exists():
                check_made_from(arrival, other_code)
            else:
                lacking[arrival.run.partition] = None
        except FlatFedError as problem:
            problems.append(str(problem))
    if lacking:
        others = "`python -m flatfed table TABLE --runs FOLDER` reads published runs without"
        command = shlex.join(["snakemake", "--cores", "1", *lacking])
        problems.append(f"{len(lacking)} files are needed to check the runs ({others}); make them first: {command}")
    if problems:
        raise DataError("\n".join(problems))
    return list(arrivals.values())


def read(experiment: Experiment, folder: Path) -> Arrival:
    """Return the finished run in ``folder``, held against this configuration but for its data and code.

    :raises DataError: it is not whole, or something that decides its numbers is not what the configuration asks for.
    """
    file = folder / RECORD
    record = run_folders.read(file)
    if (folder / MODEL).is_file():  # published runs have none, nor have those whose model no analysis was to read
        record.check_files(folder, MODEL)
    run = run_specs.run(experiment, **vars(RunIds.of(record.description)))
    if different := identity.in_words(record.description, run.description):
        raise DataError(f"{file}: not the run that the configuration describes: {'; '.join(different)}")
    if not record.ended:
        raise DataError(f"{folder}: unfinished: {record.rounds_done} of {run.description['rounds']} rounds are done")
    return Arrival(folder, record, run)


def check_made_from(arrival: Arrival, other_code: bool) -> None:
    """Raise DataError where data, partition or, unless ``other_code``, versions of the code are not those here."""
    file, record, here = arrival.folder / RECORD, arrival.record, versions.of_run(arrival.run.description)
    try:
        identity.check_data(str(file), record, arrival.run.partition)
    except DataError as error:
        raise DataError(f"{error}, or make the data again {run_folders.IN_ORDER}") from None
    if record.versions != here and not other_code:
        was, now = json.dumps(record.versions), json.dumps(here)
        raise DataError(f"{file}: versions is {was}, but here it is {now}; --other-code accepts it")


def bring(arrival: Arrival) -> None:
    """Copy the files of a run into its place, all or none, newer than anything they were made from.

    They are copied beside the place first, so that a kill in between does not lose what they replace.
    """
    place = arrival.place
    staged, replaced = (place.with_name(f".{place.name}.{state}") for state in ("importing", "replaced"))
    for folder in (staged, replaced):
        shutil.rmtree(folder, ignore_errors=True)
    staged.mkdir(parents=True)
    for file in (arrival.folder / name for name in FILES):
        if file.is_file():
            shutil.copyfile(file, staged / file.name)
    if place.exists():
        place.rename(replaced)
    staged.rename(place)
    shutil.rmtree(replaced, ignore_errors=True)


def forget(files: list[str]) -> None:
    """Have Snakemake drop what it recorded of earlier jobs for ``files``: it would compare those with ours."""
    if not files or not Path(".snakemake").is_dir():
        return
    command = [sys.executable, "-m", "snakemake", "--cleanup-metadata", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # Of a run that was never made here nothing was recorded: Snakemake reports that, and drops the others all the same.
    if done.returncode and "because the metadata was not present" not in done.stderr:
        print(f"snakemake --cleanup-metadata failed, so it may make the runs again:\n{done.stderr}", file=sys.stderr)
