"""``flatfed import``: runs made where Snakemake is not, checked and put where Snakemake finds them done."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from flatfed.commands import arguments, configuration, run_folders, run_record
from flatfed.data import manifest as manifests
from flatfed.errors import DataError, FlatFedError
from flatfed.experiment import Experiment, Run, tuning
from flatfed.files import digest_file
from flatfed.runs import identity, provenance
from flatfed.runs import record as records
from flatfed.runs.record import FILES, METRICS, MODEL, RECORD, RunRecord
from flatfed.tables.readings import history_of

#: What Snakemake says of files of which it has no record.
NOT_RECORDED = "because the metadata was not present"

#: Problems, or runs, that one message names at most.
NAMED = 12

#: What helps where a digest of a run is not the one here.
HINTS = {
    "code_digest": "; --other-code accepts it",
    "dataset_digest": f"; the data set may be made again {run_record.IN_ORDER}",
}

DETAIL = """\
Checks that each run is finished and was made from the description, data, partition and code that the
configuration asks for here, then moves its folder into results/, where Snakemake finds it done. Nothing
is moved unless every run passes.
A run that is there already is counted and left alone. One in whose place another stands is named and left
where it is; the others are moved, and the exit status is 2. A run without its model, as runs are published,
is copied: tables and curves can be made of it, and Snakemake trains it again only for an analysis.
`table --runs` reads such runs in place, without their data."""
EXAMPLE = "python -m flatfed import from-gpu-host/results/preview/runs"


def add(sub: argparse.ArgumentParser) -> None:
    """Add what the sub-command takes."""
    arguments.add_folders(sub, "a run folder, or one that holds some")
    sub.add_argument("--replace", action="store_true", help="put them in place of runs that are already there")
    sub.add_argument(
        "--other-code",
        action="store_true",
        help="accept runs that other source code trained",
    )
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

    @property
    def data(self) -> tuple[Path, Path]:
        """The files whose digests it is held against: its data set's dataset.json and its partition."""
        return Path(self.run.manifest), Path(self.run.partition)


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
    arrivals = _passed(experiment, folders, options.config, options.other_code)
    in_place = [(arrival, what_is_in_place(arrival)) for arrival in arrivals]
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
    others = [arrival for arrival, there in in_place if there == "another"]
    if others and not options.replace:
        kept = [f"{arrival.place} exists already ({arrival.folder})" for arrival in others]
        _refuse([*kept, f"{len(kept)} runs stay where they are; --replace puts them in place of those that exist"])


def _passed(
    experiment: Experiment, folders: list[Path], config: configuration.Parts, other_code: bool
) -> list[Arrival]:
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
    needed = dict.fromkeys(path for arrival in arrivals.values() for path in arrival.data if not path.exists())
    for arrival in arrivals.values():
        if not needed.keys() & set(arrival.data):
            problems += differing_digests(arrival, other_code=other_code)
    if needed:
        files, values = configuration.split(config)
        given = [*(["--configfile", *files] if files else []), *(["--config", *values] if values else [])]
        command = shlex.join(["snakemake", "--cores", "1", *given, "--", *map(str, needed)])
        others = " (`python -m flatfed table TABLE --runs FOLDER` reads published runs without)"
        problems.append(f"{len(needed)} files are needed to check the runs{others}; make them first: {command}")
    if problems:
        _refuse(problems)
    return list(arrivals.values())


def _refuse(problems: list[str]) -> NoReturn:
    """Raise a DataError of all ``problems``, a line each; of many the first, and the last, which says what to do."""
    left = len(problems) - NAMED
    raise DataError("\n".join(problems if left <= 0 else [*problems[: NAMED - 1], f"{left} more", problems[-1]]))


def checked(experiment: Experiment, folder: Path) -> Arrival:
    """Return the finished run in ``folder``, held against this configuration but for its data and code.

    :raises DataError: it is not whole, or something that decides its numbers is not what the configuration asks for.
    """
    if not (folder / METRICS).is_file():
        raise DataError(f"{folder}: unfinished: {METRICS} is missing")
    record = records.read(folder / RECORD)
    # Published runs have no model, nor have those whose model no analysis was to read.
    model = [MODEL] if (folder / MODEL).is_file() else []
    record.check_files(folder, METRICS, *model)
    run_record.check_description(record, folder / RECORD)
    run = described(experiment, record.description)
    if Path(run.path).resolve() == folder.resolve():
        raise DataError(f"{folder}: is in its place already; import takes runs from another folder")
    if different := identity.in_words(record.description, run.description):
        raise DataError(f"{folder / RECORD}: not the run that the configuration describes: {'; '.join(different)}")
    history_of(folder, record, ("round",))
    if not record.ended:
        raise DataError(f"{folder}: unfinished: {record.rounds_done} of {run.description['rounds']} rounds are done")
    return Arrival(folder, record, run)


def described(experiment: Experiment, theirs: dict[str, Any]) -> Run:
    """Return the run that a description is meant to be; of tuning runs, the one of the point that is nearest to it."""
    ids = [theirs[key] for key in ("scale", "protocol", "split", "algorithm")]
    if "validation" not in theirs:
        return experiment.run(*ids, theirs["seed"])
    search = tuning.search_at(experiment, *ids)
    runs = [tuning.run(experiment, search, point) for point in search.points()]
    return min(runs, key=lambda run: len(list(identity.differences(theirs, run.description))))


def what_is_in_place(arrival: Arrival) -> str:
    """Return what is in the place of a run that arrives.

    It is "nothing"; "the same" run; that, but "its model lacks", which is here; or "another", damaged ones included.
    """
    folder, place = arrival.folder, arrival.place
    if not place.exists():
        return "nothing"
    try:
        same_record = arrival.record == records.read(place / RECORD)
        same_metrics = digest_file(folder / METRICS) == digest_file(place / METRICS)
    except (OSError, DataError):
        return "another"
    theirs, ours = (digest_file(path) if (path := run / MODEL).is_file() else None for run in (folder, place))
    if not same_record or not same_metrics or (theirs and ours and theirs != ours):
        return "another"
    return "its model lacks" if theirs and not ours else "the same"


def differing_digests(arrival: Arrival, *, other_code: bool) -> list[str]:
    """Return a line for each of data, partition and, unless ``other_code``, source code that is not the one here."""
    from flatfed.data import partition as partitions

    manifest, partition = arrival.data
    ours = {
        "dataset_digest": manifests.read(manifest).digest,
        "partition_digest": partitions.load(partition).digest,
    }
    if not other_code:
        ours["code_digest"] = provenance.run_digest(arrival.run.description)
    problems = []
    for key, digest in ours.items():
        if (theirs := getattr(arrival.record, key)) != digest:
            hint = HINTS.get(key, "")
            is_ = f"{key} is {str(theirs)[:12]}, but here it is {digest[:12]}"
            problems.append(f"{arrival.folder / RECORD}: {is_}{hint}")
    return problems


def move(arrival: Arrival) -> None:
    """Put a run into its place, whole or not at all, its files newer than anything they were made from.

    It is then gone from where it was, except a run without its model: it is likely published there. Of a link to a
    folder the link goes.
    It is copied beside its place first and removed last, so that a kill in between loses neither it nor what it
    replaces.
    """
    place = arrival.place
    place.parent.mkdir(parents=True, exist_ok=True)
    staged = place.with_name(f".{place.name}.importing")
    shutil.rmtree(staged, ignore_errors=True)
    shutil.copytree(arrival.folder, staged)
    for path in staged.iterdir():
        os.utime(path)
    replaced = place.with_name(f".{place.name}.replaced")
    shutil.rmtree(replaced, ignore_errors=True)
    if place.exists():
        place.rename(replaced)
    staged.rename(place)
    shutil.rmtree(replaced, ignore_errors=True)
    if (place / MODEL).exists():
        if arrival.folder.is_symlink():
            arrival.folder.unlink()
        else:
            shutil.rmtree(arrival.folder)


def forget(files: list[str]) -> None:
    """Have Snakemake drop what it recorded of earlier jobs for ``files``: it would compare those with ours."""
    if not Path(".snakemake").is_dir():
        return
    command = [sys.executable, "-m", "snakemake", "--cleanup-metadata", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # Of a run that was never made here nothing was recorded: Snakemake reports that, and drops the others all the same.
    if done.returncode and NOT_RECORDED not in done.stderr:
        print(f"snakemake --cleanup-metadata failed, so it may make the runs again:\n{done.stderr}", file=sys.stderr)
