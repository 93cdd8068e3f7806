"""``flatfed import``: runs made where Snakemake is not, checked and put where Snakemake finds them done."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatfed.commands import arguments, configuration, run_folders
from flatfed.data import manifest as manifests
from flatfed.engine import versions
from flatfed.errors import DataError, FlatFedError
from flatfed.experiment import Experiment, Run, run_specs, tuning
from flatfed.runs import identity
from flatfed.runs.record import FILES, MODEL, RECORD, RunRecord

DETAIL = """\
Checks that each run is finished and was made from the description, data, partition and code that the
configuration asks for here. If all are, moves them into results/, where Snakemake finds them done. Lists those in
whose place another run stands, leaves them where they are, and exits with 2. A run without its model, as runs are
published, is copied, and trained again for an analysis; `table --runs` reads such runs in place."""
EXAMPLE = "python -m flatfed import from-gpu-host/results/preview/runs"


def add(sub: argparse.ArgumentParser) -> None:
    """Add what the sub-command takes."""
    arguments.add_folders(sub, "a run folder, or one that holds some")
    sub.add_argument("--replace", action="store_true", help="put them in place of runs that are already there")
    sub.add_argument("--other-code", action="store_true", help="accept runs that other source code trained")
    arguments.add_config(sub)


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


def run(options: argparse.Namespace) -> None:
    """Check every finished run under the folders against the configuration, then move all of them into results/.

    Nothing is moved unless every run passes. Then a run that is there already is left alone, and so is one in whose
    place another stands, unless it is to be replaced. A run without its model, as runs are published, is copied.

    :raises DataError: none is found, a file is not the one of its record, a run is unfinished, or was made from another
        description, data, partition or code; or, once the others are in place, another stood in a run's place.
    """
    experiment = configuration.load(options.config)
    folders = [file.parent for file in run_folders.record_files(options.folders, RECORD, tuning=True)]
    if not folders:
        raise DataError(f"{', '.join(map(str, options.folders))}: no {RECORD} in there, so no finished run")
    in_place = [(arrival, what_is_in_place(arrival)) for arrival in _passed(experiment, folders, options)]
    wanted = {"nothing", "its model lacks", *(["another"] if options.replace else [])}
    taken = [arrival for arrival, there in in_place if there in wanted]
    for arrival in taken:
        move(arrival)
        print(f"{arrival.place}: accepted")
    if taken:
        forget([f"{arrival.place}/{name}" for arrival in taken for name in FILES])
    same = sum(there == "the same" for _, there in in_place)
    print(f"{len(taken)} runs accepted" + (f"; {same} were there already" if same else ""))
    if bare := sum(not Path(arrival.run.model).exists() for arrival in taken):
        print(f"{bare} of them without their models: tables and curves can be made, an analysis has them trained again")
    others = [arrival for arrival, there in in_place if there == "another" and arrival not in taken]
    kept = [f"{arrival.place} exists already ({arrival.folder})" for arrival in others]
    if kept:
        hint = f"{len(kept)} runs stay where they are; --replace puts them in place of those that exist"
        raise DataError("\n".join([*kept, hint]))


def _passed(experiment: Experiment, folders: list[Path], options: argparse.Namespace) -> list[Arrival]:
    """Return the finished runs in ``folders``, each held against the configuration.

    :raises DataError: some are none of its runs; the message names them, and all data and partitions that are not here.
    """
    arrivals: dict[Path, Arrival] = {}
    problems = []
    for folder in folders:
        try:
            arrival = checked(experiment, folder)
            twin = arrivals.setdefault(arrival.place, arrival)
            if twin is not arrival:
                raise DataError(f"{folder}: is {arrival.place}, and so is {twin.folder}; name one of them")
        except FlatFedError as problem:
            problems.append(str(problem))
    needed: dict[str, None] = {}
    for arrival in arrivals.values():
        data = arrival.run.manifest, arrival.run.partition
        needed |= (lacking := dict.fromkeys(path for path in data if not Path(path).exists()))
        problems += [] if lacking else differing_digests(arrival, *data, other_code=options.other_code)
    if needed:
        files, values = configuration.split(options.config)
        given = [*(["--configfile", *files] if files else []), *(["--config", *values] if values else [])]
        command = shlex.join(["snakemake", "--cores", "1", *given, "--", *needed])
        others = " (`python -m flatfed table TABLE --runs FOLDER` reads published runs without)"
        problems.append(f"{len(needed)} files are needed to check the runs{others}; make them first: {command}")
    if problems:
        raise DataError("\n".join(problems))
    return list(arrivals.values())


def checked(experiment: Experiment, folder: Path) -> Arrival:
    """Return the finished run in ``folder``, held against this configuration but for its data and code.

    :raises DataError: it is not whole, or something that decides its numbers is not what the configuration asks for.
    """
    file = folder / RECORD
    record = run_folders.read(file)
    if (folder / MODEL).is_file():  # published runs have none, nor have those whose model no analysis was to read
        record.check_files(folder, MODEL)
    run = described(experiment, record.description)
    if Path(run.path).resolve() == folder.resolve():
        raise DataError(f"{folder}: is in its place already; import takes runs from another folder")
    if different := identity.in_words(record.description, run.description):
        raise DataError(f"{file}: not the run that the configuration describes: {'; '.join(different)}")
    if not record.ended:
        raise DataError(f"{folder}: unfinished: {record.rounds_done} of {run.description['rounds']} rounds are done")
    return Arrival(folder, record, run)


def differing_digests(arrival: Arrival, manifest: str, partition: str, *, other_code: bool) -> list[str]:
    """Return a line for each of data, partition and, unless ``other_code``, source code that is not the one here."""
    from flatfed.data import partition as partitions

    about = manifests.read(manifest)
    partitions.check_size(partition, about.train + about.test, about.classes, str(Path(manifest).parent))
    here: dict[str, Any] = {"dataset_digest": about.digest, "partition_digest": partitions.load(partition).digest}
    if not other_code:
        here["versions"] = versions.of_run(arrival.run.description)
    return [f"{arrival.folder / RECORD}: {line}" for line in run_folders.differing_digests(arrival.record, **here)]


def described(experiment: Experiment, theirs: dict[str, Any]) -> Run:
    """Return the run that a description is meant to be; of tuning runs, the one of the point that is nearest to it."""
    ids = [theirs[key] for key in ("scale", "protocol", "split", "algorithm")]
    if "validation" not in theirs:
        return run_specs.run(experiment, *ids, theirs["seed"])
    parts = experiment.catalog, experiment.places
    search = tuning.search_at(*parts, *ids)
    runs = [tuning.run(*parts, search, point) for point in search.points()]
    return min(runs, key=lambda run: len(list(identity.differences(theirs, run.description))))


def what_is_in_place(arrival: Arrival) -> str:
    """Return what is in the place of a run that arrives.

    It is "nothing"; "the same" run; that, but "its model lacks", which is here; or "another", damaged ones included.
    """
    place, models = arrival.place, [(folder / MODEL).is_file() for folder in (arrival.folder, arrival.place)]
    if not place.exists():
        return "nothing"
    with contextlib.suppress(OSError, DataError):
        record = run_folders.read(place / RECORD)
        record.check_files(place, *([MODEL] if models[1] else []))
        if record == arrival.record:
            return "its model lacks" if models == [True, False] else "the same"
    return "another"


def move(arrival: Arrival) -> None:
    """Put the files of a run into its place, all or none, newer than anything they were made from.

    They are then gone from where they were, except those of a run without its model, which is likely published there.
    Other files stay there. Of a link to a folder the link goes.
    Files are copied beside the place first and removed last, so that a kill in between loses neither them nor what they
    replace.
    """
    place = arrival.place
    staged, replaced = (place.with_name(f".{place.name}.{state}") for state in ("importing", "replaced"))
    for folder in (staged, replaced):
        shutil.rmtree(folder, ignore_errors=True)
    staged.mkdir(parents=True)
    files = [arrival.folder / name for name in FILES if (arrival.folder / name).is_file()]
    for file in files:
        shutil.copyfile(file, staged / file.name)
    if place.exists():
        place.rename(replaced)
    staged.rename(place)
    shutil.rmtree(replaced, ignore_errors=True)
    if not (place / MODEL).exists():
        return
    for link_or_file in [arrival.folder] if arrival.folder.is_symlink() else files:
        link_or_file.unlink()
    with contextlib.suppress(OSError):  # it was a link, or other files are in it
        arrival.folder.rmdir()


def forget(files: list[str]) -> None:
    """Have Snakemake drop what it recorded of earlier jobs for ``files``: it would compare those with ours."""
    if not Path(".snakemake").is_dir():
        return
    command = [sys.executable, "-m", "snakemake", "--cleanup-metadata", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # Of a run that was never made here nothing was recorded: Snakemake reports that, and drops the others all the same.
    if done.returncode and "because the metadata was not present" not in done.stderr:
        print(f"snakemake --cleanup-metadata failed, so it may make the runs again:\n{done.stderr}", file=sys.stderr)
