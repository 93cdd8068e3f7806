"""``studies/convert_runs.py``: runs of earlier versions get today's formats, in place, once."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

import made
from flatfed import experiment
from flatfed.errors import DataError
from flatfed.experiment import run_specs
from flatfed.files import SEAL, digest_json, write_json
from flatfed.runs import curvature, timing, tuning_choice
from flatfed.runs import record as records
from flatfed.runs.tuning_choice import Point, TuningChoice

ROOT = Path(__file__).parents[2]
LINES = {"round": [1, 2], "test_accuracy": [0.1, 0.2]}
SPEEDS = {"average": ("paper", "active_clients")}
LESAMS = {"direction": ("official_code", "server_step"), "first": ("official_code", "unperturbed")}

#: Versions of all that is of this code.
ONE = {"engine": 1, "algorithm": 1, "model": 1, "partition": 1}


@pytest.fixture
def convert(tmp_path):
    """Convert the folder of the test in a process of its own; return what it prints."""

    def call(status: int = 0) -> str:
        command = [sys.executable, str(ROOT / "studies/convert_runs.py"), str(tmp_path)]
        done = subprocess.run(command, env={"PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True)
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    return call


def described(row: str, split: str = "dir0.6-100", protocol: str = "fedsmoo-cifar10") -> dict:
    return run_specs.run(experiment.load(ROOT), "paper", protocol, split, row, 1).description


def of_an_earlier_version(path: Path, change) -> Path:
    """Take the sums of a record away and have it say what ``change`` makes of it; return its file."""
    content = json.loads(path.read_text())
    for key in (SEAL, "files"):
        del content[key]
    change(content)
    write_json(path, content)
    return path


@pytest.mark.parametrize(
    ("row", "renamed"), [("fedspeed", SPEEDS), *((row, LESAMS) for row in ("fedlesam", "fedlesam_s", "fedlesam_d"))]
)
def test_renamed_values_and_lacking_parameters_are_those_of_today(tmp_path, convert, row, renamed):
    wanted = described(row)
    wanted["update"]["params"] |= {name: now for name, (_, now) in renamed.items()}
    folder = Path(made.run(made.place(tmp_path), LINES, description=wanted))

    def older(content):
        params = content["description"]["update"]["params"]
        params |= {name: then for name, (then, _) in renamed.items()}
        params.pop("server_learning_rate", None)
        params.pop("unpacking", None)

    path = of_an_earlier_version(folder / "run.json", older)
    with pytest.raises(DataError, match=r"run\.json: not the record .*earlier version .*studies/convert_runs\.py"):
        records.read(path)
    assert "run.json: 1 of 1 files converted" in convert()
    found = records.read(path)
    assert found.description == wanted and found.description_digest == digest_json(wanted)
    assert found.sealed == "at conversion"
    found.check_files(folder, records.METRICS)
    after = path.read_bytes()
    assert "run.json: 0 of 1 files converted" in convert() and path.read_bytes() == after


def test_an_unfinished_run_shards_and_probes(tmp_path, convert):
    wanted = described("fedavg", "shards2-100", "dfedsam-cifar10")
    wanted["partition"]["assignment"] = "permutation"
    probes = [{"round": 0, "sharpness": 1.0}]
    made.so_far(made.place(tmp_path), LINES, description=wanted, probes=probes)
    path = made.place(tmp_path) / records.RECORD_SO_FAR
    of_an_earlier_version(path, lambda content: content["description"]["partition"].pop("assignment"))
    convert()
    found = records.read(path)
    assert found.description == wanted and found.probes is None and list(found.files) == [records.LINES_SO_FAR]


def test_todays_records_stay_as_they_are_and_edited_ones_are_refused(tmp_path, convert):
    probes = [{"round": 0, "sharpness": 1.0, "images_sha256": made.DIGEST}]
    path = Path(made.run(made.place(tmp_path), LINES, description=described("fedsmoo"), probes=probes), "run.json")
    before = path.read_bytes()
    assert "run.json: 0 of 1 files converted" in convert() and path.read_bytes() == before
    path.write_text(path.read_text().replace('"rounds_done": 2', '"rounds_done": 3'))
    edited = path.read_bytes()
    assert "run.json: was changed after it was written" in convert(1) and path.read_bytes() == edited


def test_a_hessian_of_format_1(tmp_path, convert):
    now = made.hessian(10.0, 100.0, (10.5, 103.0))
    path = Path(made.written(tmp_path / "hessian.json", now))
    content = json.loads(path.read_text())
    later = ["scaled", "certain", "parts", "at_once", "pyhessian_absent", "diverged_at"]
    later += ["top_eigenvalue_images_error", "trace_images_error"]
    wrong = {name: {"difference": 0.0, "error": 1e9, "within": False} for name in ("top_eigenvalue", "trace")}
    content = {key: value for key, value in content.items() if key not in [*later, SEAL]}
    write_json(path, {**content, "format": 1, "agreement": wrong})
    with pytest.raises(DataError, match=r"hessian\.json: not a Hessian .*convert_runs\.py"):
        curvature.read(path)
    convert()
    found = curvature.read(path)
    assert found.scaled is found.at_once is found.unscaled.trace_images_error is None
    assert (found.unscaled.trace, found.agreement) == (100.0, now.agreement)


def test_a_choice_and_a_timing_follow_their_runs(tmp_path, convert):
    whole = described("fedlesam")
    older = json.loads(json.dumps(whole))
    del older["update"]["params"]["unpacking"]
    run = Path(made.run(tmp_path / "rho=0.1", LINES, description=whole))
    of_an_earlier_version(run / "run.json", lambda content: content.update(description=older))
    about = {"scale": "paper", "protocol": "p", "split": "s", "row": "fedlesam", "seed": 1, "validation": 0.1}
    point = Point(values={"rho": 0.1}, run="results/x/rho=0.1", description_digest=digest_json(older))
    asked = TuningChoice(**about, grid={"rho": [0.1]}, window=1, points=[point])
    write_json(tmp_path / "choice.json", asdict(asked))
    made.timing(tmp_path / "timing.json", older, 1.0)
    convert()
    assert tuning_choice.read(tmp_path / "choice.json").points[0].description_digest == digest_json(whole)
    assert timing.read(tmp_path / "timing.json").description == whole


@pytest.mark.parametrize(("code", "versions"), [("fdeb51a55a", ONE), ("0123456789", None)])
def test_versions_take_the_place_of_the_digest_of_the_code(tmp_path, convert, code, versions):
    folder = Path(made.run(made.place(tmp_path), LINES, description=described("fedavg")))
    made.recorded(folder, lambda content: content.update(versions={"torch": "2.14"}, code_digest=code.ljust(64, "0")))
    convert()
    found = records.read(folder / "run.json")
    assert found.versions == versions and found.libraries == {"torch": "2.14"}
