"""``flatfed import``: runs made where Snakemake is not, checked and put where Snakemake finds them done."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flatfed import algorithms, provenance
from flatfed.commands import bundle, configuration
from flatfed.errors import DataError
from flatfed.experiment import Experiment, Run, tuning
from flatfed.files import digest_json, read_json
from flatfed.runs import record as records
from flatfed.runs.identity import differences
from flatfed.runs.record import FILES, METRICS, MODEL, RECORD


def accept(folders: Iterable[Path], config: Path | None, *, replace: bool, other_code: bool) -> None:
    """Check every finished run under ``folders`` against the configuration, then move all of them into results/.

    A folder or archive that ``flatfed export`` made is held against its manifest first. Nothing is moved unless every
    run passes.

    :raises DataError: none is found, a file is not the one of the manifest, a run is unfinished, or was made from
        another description, data, partition or code.
    """
    with contextlib.ExitStack() as stack:
        _accept([stack.enter_context(bundle.opened(path)) for path in folders], config, replace, other_code)


def _accept(folders: list[Path], config: Path | None, replace: bool, other_code: bool) -> None:
    experiment = configuration.load(config)
    records = [(folder, path) for folder in folders for path in sorted(folder.rglob("run.json"))]
    # What a rerun replaced lies in a hidden folder of its own run.
    found = [path.parent for folder, path in records if not path.parent.name.startswith(".") or path.parent == folder]
    if not found:
        raise DataError(f"{', '.join(map(str, folders))}: no run.json in there, so no finished run")
    runs = [(folder, checked(experiment, folder, other_code=other_code)) for folder in found]
    for folder, run in runs:
        if Path(run.path).exists() and not replace:
            raise DataError(f"{run.path} exists already; --replace puts {folder} in its place")
    for folder, run in runs:
        move(folder, Path(run.path), run.description)
        print(f"{run.path}: accepted")
    forget([f"{run.path}/{name}" for _, run in runs for name in FILES])


def checked(experiment: Experiment, folder: Path, *, other_code: bool) -> Run:
    """Return the run of this configuration that the finished run in ``folder`` is.

    :raises DataError: it is not whole, or something that decides its numbers is not what the configuration asks for.
    """
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise DataError(f"{folder}: unfinished: {', '.join(missing)} is missing")
    record = records.read(folder / RECORD)
    if warning := records.hold(folder, record, METRICS, MODEL):
        print(warning, file=sys.stderr)
    try:
        theirs = algorithms.today(record["description"])
        run = described(experiment, theirs)
        known = completed(theirs, run) if other_code else theirs
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DataError(f"{folder}/run.json: not the record of a run ({error!r})") from error
    if Path(run.path).resolve() == folder.resolve():
        raise DataError(f"{folder}: is in its place already; import takes runs from another folder")
    different = [f"{key} is {json.dumps(a)}, here {json.dumps(b)}" for key, a, b in differences(known, run.description)]
    if different:
        raise DataError(f"{folder}/run.json: not the run that the configuration describes: {'; '.join(different)}")
    for key, ours in digests(run, other_code=other_code).items():
        if (found := record.get(key)) != ours:
            hint = "; --other-code accepts it" if key == "code_digest" else ""
            raise DataError(f"{folder}/run.json: {key} is {str(found)[:12]}, but here it is {ours[:12]}{hint}")
    return run


def described(experiment: Experiment, theirs: dict[str, Any]) -> Run:
    """Return the run that a description is meant to be; of tuning runs, the one of the point that is nearest to it."""
    ids = [theirs[key] for key in ("scale", "protocol", "split", "algorithm")]
    if "validation" not in theirs:
        return experiment.run(*ids, int(theirs["seed"]))
    found = tuning.named(experiment, *ids)
    runs = [tuning.run(experiment, found, point) for point in found.points()]
    return min(runs, key=lambda run: len(list(differences(theirs, run.description))))


def completed(theirs: dict[str, Any], run: Run) -> dict[str, Any]:
    """Return a description with the algorithm's parameters that it lacks, where ``run`` has their declared defaults.

    Such a run was made by code that had no such parameter: the default is what it did.
    """
    declared = algorithms.load(run.description["update"]["name"]).parameters()
    ours, given = run.description["update"]["params"], theirs["update"]["params"]
    added = {name: value for name, value in ours.items() if name not in given and value == declared[name].default}
    return {**theirs, "update": {**theirs["update"], "params": {**added, **given}}}


def digests(run: Run, *, other_code: bool) -> dict[str, str]:
    """Return the digests that ``run`` has when it is made here.

    :raises DataError: its data or its partition are not here to compare with.
    """
    from flatfed.data import partition as partitions

    manifest = Path("resources", run.dataset, "dataset.json")
    for path in (manifest, Path(run.partition)):
        if not path.exists():
            raise DataError(f"{path} is needed to check {run.path}; make it first: snakemake --cores 1 {path}")
    ours = {
        "dataset_digest": read_json(manifest)["digest"],
        "partition_digest": partitions.load(Path(run.partition)).digest,
    }
    if not other_code:
        ours["code_digest"] = provenance.run_digest(run.description)
    return ours


def move(folder: Path, target: Path, description: dict[str, Any]) -> None:
    """Put ``folder`` at ``target``, whole or not at all, its files newer than anything they were made from.

    Where its run.json lacks parameters that the accepted ``description`` has, or has retired names of values, the
    description is written to it, and beside it which parameters these were.
    Copied beside its place first and removed last, so that a kill in between loses neither it nor what it replaces.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    staged = target.with_name(f".{target.name}.importing")
    shutil.rmtree(staged, ignore_errors=True)
    shutil.copytree(folder, staged)
    record = read_json(staged / "run.json")
    if record["description"] != description:
        ours, theirs = description["update"]["params"], record["description"]["update"]["params"]
        record |= {"description": description, "description_digest": digest_json(description)}
        record["completed"] = sorted(ours.keys() - theirs.keys())
        record["renamed"] = {name: value for name, value in theirs.items() if value != ours[name]}
        records.write(staged / RECORD, record)
    for path in staged.iterdir():
        os.utime(path)
    replaced = target.with_name(f".{target.name}.replaced")
    shutil.rmtree(replaced, ignore_errors=True)
    if target.exists():
        target.rename(replaced)
    staged.rename(target)
    shutil.rmtree(replaced, ignore_errors=True)
    shutil.rmtree(folder)


def forget(files: list[str]) -> None:
    """Have Snakemake drop what it recorded of earlier jobs for ``files``: it would compare those with ours."""
    if not Path(".snakemake").is_dir():
        return
    command = [sys.executable, "-m", "snakemake", "--cleanup-metadata", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"snakemake --cleanup-metadata failed, so it may make the runs again:\n{done.stderr}", file=sys.stderr)
