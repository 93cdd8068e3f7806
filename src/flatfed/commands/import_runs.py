"""``flatfed import``: runs made where Snakemake is not, checked and put where Snakemake finds them done."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from flatfed.commands import arguments, configuration, kinds
from flatfed.data import manifest as manifests
from flatfed.errors import DataError, FlatFedError
from flatfed.experiment import Experiment, Run, tuning
from flatfed.files import digest_file, digest_json
from flatfed.runs import identity, provenance
from flatfed.runs import record as records
from flatfed.runs.record import FILES, METRICS, MODEL, RECORD
from flatfed.tables.readings import hold_rounds, read_metrics

#: What Snakemake says of files of which it has no record.
NOT_RECORDED = "because the metadata was not present"

#: Problems, or runs, that one message names at most.
NAMED = 12

#: What import writes to a record, as it is where two are compared.
WRITTEN: dict[str, Any] = {"description": {}, "description_digest": None, "completed": None, "renamed": None}

DETAIL = """\
Checks that each run is finished and was made from the description, data, partition and code that the
configuration asks for here, then moves its folder into results/, where Snakemake finds it done. Nothing
is moved unless every run passes.
A run that is there already is counted and left alone. One in whose place another stands is named and left
where it is; the others are moved, and the exit status is 2. A run without its model, as runs are published,
is copied: tables and curves can be made of it, and Snakemake trains it again only for an analysis.
`published` reads such runs in place, without their data."""
EXAMPLE = "python -m flatfed import from-gpu-host/results/preview/runs"


def add(sub: argparse.ArgumentParser) -> None:
    """Add what the sub-command takes."""
    sub.add_argument(
        "folders", nargs="+", type=kinds.folder, metavar="FOLDER", help="a run folder, or one that holds some"
    )
    sub.add_argument("--replace", action="store_true", help="put them in place of runs that are already there")
    sub.add_argument(
        "--other-code",
        action="store_true",
        help="accept runs that other source code trained; parameters it did not have yet count as their defaults and "
        "are written to run.json",
    )
    arguments.add_config(sub)


def run(options: argparse.Namespace) -> None:
    """Check every finished run under the folders against the configuration, then move all of them into results/.

    Nothing is moved unless every run passes. Then a run that is there already is left alone, and so is one in whose
    place another stands, unless it is to be replaced. A run without its model, as runs are published, is copied.

    :raises DataError: none is found, a file is not the one of its record, a run is unfinished, or was made from another
        description, data, partition or code; or, once the others are in place, another stood in a run's place.
    """
    folders, over, experiment = options.folders, options.replace, configuration.load(options.config)
    files = [(folder, path) for folder in folders for path in sorted(folder.rglob("run.json"))]
    # What a rerun replaced lies in a hidden folder of its own run.
    found = [path.parent for folder, path in files if not path.parent.name.startswith(".") or path.parent == folder]
    if not found:
        raise DataError(f"{', '.join(map(str, folders))}: no run.json in there, so no finished run")
    runs = _passed(experiment, found, options.config, options.other_code)
    states = {folder: standing(folder, Path(run.path)) for folder, run in runs.items()}
    wanted = {"nothing", "its model lacks", *(["another"] if over else [])}
    taken = {folder: run for folder, run in runs.items() if states[folder] in wanted}
    for folder, run in taken.items():
        move(folder, Path(run.path), run.description)
        print(f"{run.path}: accepted")
    if taken:
        forget([f"{run.path}/{name}" for run in taken.values() for name in FILES])
    same = list(states.values()).count("the same")
    print(f"{len(taken)} runs accepted" + (f"; {same} were there already" if same else ""))
    if bare := sum(not Path(run.path, MODEL).exists() for run in taken.values()):
        print(f"{bare} of them without their models: tables and curves can be made, an analysis has them trained again")
    kept = [f"{run.path} exists already ({folder})" for folder, run in runs.items() if states[folder] == "another"]
    if kept and not over:
        _refuse([*kept, f"{len(kept)} runs stay where they are; --replace puts them in place of those that exist"])


def _passed(
    experiment: Experiment, found: list[Path], config: configuration.Parts, other_code: bool
) -> dict[Path, Run]:
    """Return the run of this configuration that each of the finished runs ``found`` is, by folder.

    :raises DataError: some are none; the message names them, and all data and partitions that are not here.
    """
    runs: dict[Path, Run] = {}
    problems, warnings = [], []
    for folder in found:
        try:
            run, warning = checked(experiment, folder, other_code=other_code)
            twins = [other for other, known in runs.items() if known.path == run.path]
            if twins:
                raise DataError(f"{folder}: is {run.path}, and so is {twins[0]}; name one of them")
        except FlatFedError as problem:
            problems.append(str(problem))
        else:
            runs[folder] = run
            warnings += [warning] if warning else []
    needed = dict.fromkeys(path for run in runs.values() for path in data_of(run) if not path.exists())
    for folder, run in runs.items():
        if not needed.keys() & set(data_of(run)):
            problems += hold_digests(folder, run, other_code=other_code)
    if needed:
        files, values = configuration.split(config)
        given = [*(["--configfile", *files] if files else []), *(["--config", *values] if values else [])]
        command = shlex.join(["snakemake", "--cores", "1", *given, "--", *map(str, needed)])
        others = " (`python -m flatfed published` reads published runs without)"
        problems.append(f"{len(needed)} files are needed to check the runs{others}; make them first: {command}")
    if problems:
        _refuse(problems)
    if warnings:
        more = f", and {len(warnings) - 1} others" if len(warnings) > 1 else ""
        print(warnings[0] + more, file=sys.stderr)
    return runs


def _refuse(problems: list[str]) -> NoReturn:
    """Raise a DataError of all ``problems``, a line each; of many the first, and the last, which says what to do."""
    left = len(problems) - NAMED
    raise DataError("\n".join(problems if left <= 0 else [*problems[: NAMED - 1], f"{left} more", problems[-1]]))


def checked(experiment: Experiment, folder: Path, *, other_code: bool) -> tuple[Run, str]:
    """Return the run of this configuration that the finished run in ``folder`` is, and "" or what cannot be told of it.

    Of its data and code, see :func:`hold_digests`.

    :raises DataError: it is not whole, or something that decides its numbers is not what the configuration asks for.
    """
    if not (folder / METRICS).is_file():
        raise DataError(f"{folder}: unfinished: {METRICS} is missing")
    record = records.read(folder / RECORD)
    # Published runs have no model, nor have those whose model no analysis was to read.
    model = [MODEL] if (folder / MODEL).is_file() else []
    warning = record.check_files(folder, METRICS, *model)
    try:
        theirs = identity.updated(record.description)
        run = described(experiment, theirs)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DataError(f"{folder}/run.json: not the record of a run ({error!r})") from error
    if Path(run.path).resolve() == folder.resolve():
        raise DataError(f"{folder}: is in its place already; import takes runs from another folder")
    if different := identity.in_words(theirs, run.description):
        raise DataError(f"{folder}/run.json: not the run that the configuration describes: {'; '.join(different)}")
    hold_rounds(folder, record, read_metrics(folder / METRICS, ("round",)))
    if not record.ended:
        raise DataError(f"{folder}: unfinished: {record.rounds_done} of {run.description['rounds']} rounds are done")
    return run, warning


def standing(folder: Path, place: Path) -> str:
    """Return what stands in the ``place`` of the run in ``folder``.

    It is "nothing"; "the same" run; that, but "its model lacks", which is here; or "another", damaged ones included.
    """
    if not place.exists():
        return "nothing"
    try:
        theirs, ours = (replace(records.read(run / RECORD), **WRITTEN) for run in (folder, place))
        same = digest_file(folder / METRICS) == digest_file(place / METRICS)
    except (OSError, DataError):
        return "another"
    models = [digest_file(path) if (path := run / MODEL).is_file() else None for run in (folder, place)]
    if not same or theirs != ours or (None not in models and models[0] != models[1]):
        return "another"
    return "its model lacks" if models[1] is None and models[0] is not None else "the same"


def described(experiment: Experiment, theirs: dict[str, Any]) -> Run:
    """Return the run that a description is meant to be; of tuning runs, the one of the point that is nearest to it."""
    ids = [theirs[key] for key in ("scale", "protocol", "split", "algorithm")]
    if "validation" not in theirs:
        return experiment.run(*ids, int(theirs["seed"]))
    found = tuning.named(experiment, *ids)
    runs = [tuning.run(experiment, found, point) for point in found.points()]
    return min(runs, key=lambda run: len(list(identity.differences(theirs, run.description))))


def data_of(run: Run) -> tuple[Path, Path]:
    """Return the files whose digests a run is held against: its data set's dataset.json and its partition."""
    return Path(run.manifest), Path(run.partition)


def hold_digests(folder: Path, run: Run, *, other_code: bool) -> list[str]:
    """Return what of data, partition and, unless ``other_code``, source code is not what ``run`` is made from here."""
    from flatfed.data import partition as partitions

    manifest, partition = data_of(run)
    ours = {
        "dataset_digest": manifests.read(manifest).digest,
        "partition_digest": partitions.load(partition).digest,
    }
    if not other_code:
        ours["code_digest"] = provenance.run_digest(run.description)
    record, problems = records.read(folder / RECORD), []
    for key, digest in ours.items():
        if (found := getattr(record, key)) != digest:
            hint = "; --other-code accepts it" if key == "code_digest" else ""
            problems.append(f"{folder}/run.json: {key} is {str(found)[:12]}, but here it is {digest[:12]}{hint}")
    return problems


def move(folder: Path, target: Path, description: dict[str, Any]) -> None:
    """Put ``folder`` at ``target``, whole or not at all, its files newer than anything they were made from.

    It is then gone from where it was, but for a run without its model: it is likely published there.
    Where its run.json lacks parameters that the accepted ``description`` has, or has retired names of values, the
    description is written to it, and beside it which parameters these were.
    Copied beside its place first and removed last, so that a kill in between loses neither it nor what it replaces.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    staged = target.with_name(f".{target.name}.importing")
    shutil.rmtree(staged, ignore_errors=True)
    shutil.copytree(folder, staged)
    record = records.read_finished(staged)
    if record.description != description:
        ours, theirs = description["update"]["params"], record.description["update"]["params"]
        digest, completed = digest_json(description), sorted(ours.keys() - theirs.keys())
        renamed = {name: value for name, value in theirs.items() if value != ours[name]}
        about = {"description": description, "description_digest": digest, "completed": completed, "renamed": renamed}
        records.write(staged / RECORD, replace(record, **about))
    for path in staged.iterdir():
        os.utime(path)
    replaced = target.with_name(f".{target.name}.replaced")
    shutil.rmtree(replaced, ignore_errors=True)
    if target.exists():
        target.rename(replaced)
    staged.rename(target)
    shutil.rmtree(replaced, ignore_errors=True)
    if (target / MODEL).exists():
        shutil.rmtree(folder)


def forget(files: list[str]) -> None:
    """Have Snakemake drop what it recorded of earlier jobs for ``files``: it would compare those with ours."""
    if not Path(".snakemake").is_dir():
        return
    command = [sys.executable, "-m", "snakemake", "--cleanup-metadata", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # Of a run that was never made here nothing was recorded: Snakemake reports that, and drops the others all the same.
    if done.returncode and NOT_RECORDED not in done.stderr:
        print(f"snakemake --cleanup-metadata failed, so it may make the runs again:\n{done.stderr}", file=sys.stderr)
