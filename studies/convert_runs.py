"""Convert folders of runs from earlier versions of FlatFed to the formats of 2026-11-25, in place.

    PYTHONPATH=src python studies/convert_runs.py FOLDER...

FLATFED_ALGORITHMS names folders of your own algorithms, separated as in PATH.

run.json, run.so-far.json
    ``versions`` of libraries becomes ``libraries``. ``versions`` of engine, algorithm, model and partition scheme
    replace the digest of the code: 1 if that code gives the same numbers, else nothing. Renamed choices get their new
    names, new parameters their defaults, and shards ``assignment``. Probes without ``images_sha256`` become null. Files
    without digests get them with ``"sealed": "at conversion"``.
hessian.json, timing.json, choice.json
    Hessians become format 3 with null for missing values, timings of format 3 become format 4. Both get a seal.
    Delete older timings, and surfaces without a format: Snakemake rebuilds them.

Digests and seals detect changes after the conversion only. The script deletes .snakemake/metadata in the current
folder: Snakemake would train all runs again because of it.
"""

from __future__ import annotations

import copy
import shutil
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flatfed import algorithms, forms
from flatfed.engine import versions
from flatfed.errors import DataError, FlatFedError
from flatfed.files import SEAL, digest_file, digest_json, intact, read_json, sealed, write_json
from flatfed.runs import curvature, record, timing, tuning_choice
from flatfed.runs.curvature import Hessian
from flatfed.runs.uncertainty import agreement

#: (parameter, former value) -> present value, if an algorithm knows only the present value.
RENAMED = {
    ("average", "paper"): "active_clients",
    ("direction", "official_code"): "server_step",
    ("first", "official_code"): "unperturbed",
}
#: First ten digits of the code digests with the numbers of version 1.
VERSION_1 = """
0225798003 02c9190ceb 06906e8192 07bfa0a547 0c915e06a6 0f5ee935ba 10e2d366cf 11f2cd09bd 126378199d 137de12360
1473c53be4 14e963c9e4 150b8e2c85 151a1ce998 15751b8c44 1a0c7eeeb0 1ee0cb1439 1fa2716d4f 1febe7a954 20027505fc
2024541cf6 22f5a5ad1e 241c9d29b4 29581b893a 2afb9f87d6 2fd24217b7 30f55e358f 3254003851 33553e8093 386de47301
3da50b0886 3e25f2bf1a 3fa193062a 4081abb910 41d6574b7b 4269beb0f8 43fc0ab412 473ed4618f 47cf982558 4830cc79be
4a1f04d684 4e218d456e 4fca3027a5 55a791bafd 58e1918ff3 5ea87f2db6 5f1bfba032 5f6c62e4e8 60388d800c 632405eba7
66d1d28a09 672fac15bd 677fa59539 6d2a426e37 702efb19c0 720380171d 765ea6b8ca 78a3a059da 833941ab0c 834d63c9a3
860ea4c630 86e732213a 89ea3d8561 8bd77129e2 8c7b42a394 9453678843 9842a57e9b 9a57833653 9b70305a1b 9dd527c708
9f84c876da 9fdc93fbac a06a9d16f6 a6bad20dad a768c1103a a7d9fd3696 aa2ce83316 aa6fe632d2 aae725b0fb aeee19437d
b0272a7eee b3cb84d234 b930a2f22f ba93ee46c4 bdfd412ec9 c066e3761b c2453ca5f7 c2b80c7e01 c50964d565 c5f97d6126
c930f28841 c96d3990e4 c9d6fe9300 cacb1705c3 cc257d1d9a cf36c94fbc cfabf0b0cf d25bf01435 d30d37a135 d3668cbc52
d6c5092419 dad63ff501 df662fcdbe dfc444617f e0955fa7ac e5174b3308 e60d297c58 e6ecec705f e87cecf8d0 ebba2a1d5b
ec8144efb9 ee619136aa f1fe3e7526 f381d3d0e5 f6245fb2d0 f65e755178 f7e067cbb2 f8f00e519c fdeb51a55a fe7f8d6484
"""
LATER = ["parts", "at_once", "diverged_at", "scaled", "pyhessian_absent"]
LATER += ["top_eigenvalue_images_error", "trace_images_error"]


def described(description: dict[str, Any]) -> dict[str, Any]:
    """Return a run description in the format of 2026-11-25."""
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
        update["params"] = {name: parameter.default for name, parameter in declared.items()} | update["params"]
    return description


def check_seal(content: dict[str, Any], key: str, path: Path) -> None:
    """Raise DataError if the file has a seal and was changed since."""
    if key in content and not intact(content, key):
        raise DataError(f"{path}: was changed after it was written ({key}); restore the file")


def run(content: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the content of a run.json or run.so-far.json."""
    check_seal(content, SEAL, path)
    if (description := described(content["description"])) != content["description"]:
        content = {**content, "description": description, "description_digest": digest_json(description)}
    if any("images_sha256" not in probe for probe in content.get("probes") or ()):
        content = {**content, "probes": None}
    if not content.get("files"):
        names = (record.METRICS, record.MODEL) if path.name == record.RECORD else (record.LINES_SO_FAR,)
        files = [path.with_name(name) for name in names if path.with_name(name).is_file()]
        content = {**content, "files": {file.name: digest_file(file) for file in files}, "sealed": "at conversion"}
    return sealed(versioned(content), SEAL)


def versioned(content: dict[str, Any]) -> dict[str, Any]:
    """Return a record with ``versions`` instead of the digest of the code, and with ``libraries``."""
    if "code_digest" not in content:
        return content
    sessions = [_with_libraries(session) for session in content.get("sessions", [])]
    content = _with_libraries(content) | ({"sessions": sessions} if sessions else {})
    code = content.pop("code_digest")
    return content | ({"versions": versions.of_run(content["description"])} if code[:10] in VERSION_1 else {})


def _with_libraries(content: dict[str, Any]) -> dict[str, Any]:
    return {"libraries" if key == "versions" else key: value for key, value in content.items()}


def hessian(content: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the content of a hessian.json."""
    if content["format"] == 1:
        content = {**dict.fromkeys(LATER), **content, "agreement": None, "format": curvature.FORMAT}
        estimates = forms.read(Hessian, {**content, "about": content, "unscaled": content}, str(path))
        comparison = agreement(estimates.unscaled, estimates.pyhessian) if estimates.pyhessian else None
        content["agreement"] = asdict(comparison) if comparison else None
    return content if SEAL in content else sealed({**content, "format": curvature.FORMAT}, SEAL)


def timed(content: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the content of a timing.json; formats 1 and 2 measured other seconds and stay unchanged."""
    check_seal(content, SEAL, path)
    if content["format"] < 3:
        return content
    content = versioned({**content, "description": described(content["description"]), "format": timing.FORMAT})
    return sealed(content, SEAL)


def chosen(content: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the content of a choice.json, after the conversion of its runs."""
    check_seal(content, tuning_choice.SEAL_KEY, path)
    points = copy.deepcopy(content["points"])
    for point in points:
        of_run = path.with_name(Path(point["run"]).name) / record.RECORD
        if of_run.is_file():
            point["description_digest"] = digest_json(read_json(of_run)["description"])
        point.pop("code_digest", None)
    return sealed({**content, "points": points}, tuning_choice.SEAL_KEY)


CONVERTERS = {
    **{"run.json": run, "run.so-far.json": run, "choice.json": chosen},
    **{"hessian.json": hessian, "timing.json": timed},
}


def main(folders: Iterable[str]) -> None:
    """Convert the files in ``folders``; print the numbers of changed files."""
    algorithms.FILES.look_in_environment()
    for name, convert in CONVERTERS.items():
        files = [file for folder in folders for file in sorted(Path(folder).rglob(name))]
        changed = {file: new for file in files if (new := convert(old := read_json(file), file)) != old}
        for file, content in changed.items():
            write_json(file, content)
        print(f"{name}: {len(changed)} of {len(files)} files converted")
        if changed:
            shutil.rmtree(".snakemake/metadata", ignore_errors=True)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except FlatFedError as error:
        sys.exit(str(error))
