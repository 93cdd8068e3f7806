"""Converts folders of runs from earlier versions of FlatFed to the formats of 2026-11-25, in place.

    PYTHONPATH=src python studies/convert_runs.py FOLDER...

Each file is replaced as a whole. FLATFED_ALGORITHMS names folders of your own algorithms, separated as in PATH.

run.json, run.so-far.json
    Renamed values of choices get their present names, parameters that algorithms have gained get their defaults (what
    the earlier code did), and shards get ``assignment``. Probes without ``images_sha256`` measured other quantities and
    become null. Missing sums of files are added with ``"sealed": "at conversion"``: they show later changes only.
hessian.json, timing.json, choice.json
    Format 1 of a Hessian becomes format 2, with null for what it lacks. Descriptions and their digests become those of
    the converted runs. Delete timings of format 1 and surfaces without a format: Snakemake rebuilds them.
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flatfed import algorithms, forms
from flatfed.errors import DataError, FlatFedError
from flatfed.files import digest_file, digest_json, intact, read_json, sealed, write_json
from flatfed.runs import choice, record
from flatfed.runs.curvature import Hessian
from flatfed.runs.uncertainty import agreement

#: (parameter, former value) -> present value, for every algorithm whose parameter has the present value only.
RENAMED = {
    ("average", "paper"): "active_clients",
    ("direction", "official_code"): "server_step",
    ("first", "official_code"): "unperturbed",
}
LATER = ["parts", "at_once", "diverged_at", "scaled", "pyhessian_absent"]
LATER += [f"{name}_{what}" for name in ("top_eigenvalue", "trace") for what in ("images_error", "interval")]


def described(description: dict[str, Any]) -> dict[str, Any]:
    """Return a run description as the configuration of 2026-11-25 writes it."""
    description = copy.deepcopy(description)
    if description["partition"].get("scheme") == "shards":
        description["partition"].setdefault("assignment", "permutation")
    update = description["update"]
    if update["name"] in algorithms.names():
        declared = algorithms.load(update["name"]).parameters()
        for name, value in update["params"].items():
            options = getattr(declared.get(name), "options", ())
            if value not in options and RENAMED.get((name, value)) in options:
                update["params"][name] = RENAMED[name, value]
        update["params"] = {**{name: one.default for name, one in declared.items()}, **update["params"]}
    return description


def check_seal(content: dict[str, Any], key: str, path: Path) -> None:
    """Refuse a file that has a sum of itself and was changed since; raises DataError."""
    if key in content and not intact(content, key):
        raise DataError(f"{path}: was changed after it was written ({key}); take the file as it was")


def run(content: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the record of a run, finished or not; ``path`` is its file."""
    check_seal(content, record.OWN, path)
    if (description := described(content["description"])) != content["description"]:
        content = {**content, "description": description, "description_digest": digest_json(description)}
    if any("images_sha256" not in probe for probe in content.get("probes") or ()):
        content = {**content, "probes": None}
    if not content.get("files"):
        names = (record.METRICS, record.MODEL) if path.name == record.RECORD else (record.LINES_SO_FAR,)
        files = [path.with_name(name) for name in names if path.with_name(name).is_file()]
        content = {**content, "files": {file.name: digest_file(file) for file in files}, "sealed": "at conversion"}
    return sealed(content, record.OWN)


def hessian(content: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the content of a hessian.json."""
    if content["format"] != 1:
        return content
    content = {**dict.fromkeys(LATER), **content, "format": 2, "agreement": None}
    found = forms.read(Hessian, {**content, "about": content, "own": content}, str(path))
    return {**content, "agreement": asdict(agreement(found.own, found.pyhessian)) if found.pyhessian else None}


def chosen(content: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the content of a choice.json, whose runs are converted already."""
    check_seal(content, choice.OWN, path)
    points = copy.deepcopy(content["points"])
    for point in points:
        of_run = path.with_name(Path(point["run"]).name) / record.RECORD
        if of_run.is_file():
            point["description_digest"] = digest_json(read_json(of_run)["description"])
    return sealed({**content, "points": points}, choice.OWN)


CONVERTERS = {
    **{"run.json": run, "run.so-far.json": run, "hessian.json": hessian, "choice.json": chosen},
    "timing.json": lambda content, _: {**content, "description": described(content["description"])},
}


def main(folders: Iterable[str]) -> None:
    """Convert the files in ``folders``; print how many have changed."""
    algorithms.look_in(filter(None, os.environ.get(algorithms.VARIABLE, "").split(os.pathsep)), algorithms.VARIABLE)
    for name, convert in CONVERTERS.items():
        files = [file for folder in folders for file in sorted(Path(folder).rglob(name))]
        changed = {file: new for file in files if (new := convert(old := read_json(file), file)) != old}
        for file, content in changed.items():
            write_json(file, content)
        print(f"{name}: {len(changed)} of {len(files)} files converted")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except FlatFedError as error:
        sys.exit(str(error))
