"""Folders of runs for tests, as the trainer leaves them: the record is written by the code that writes records."""

import dataclasses
import json
import shutil
import statistics
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flatfed import files
from flatfed.config.table import TableDocument
from flatfed.data import partition as partitions
from flatfed.files import digest_file
from flatfed.plan.metrics import METRICS
from flatfed.plan.number import Number, by_cell, runs_of
from flatfed.plan.numbers import numbers
from flatfed.plan.reference import Printed
from flatfed.plan.units import UNITS
from flatfed.runs import curvature, landscape_file, versions
from flatfed.runs import record as records
from flatfed.runs import timing as timings
from flatfed.runs.curvature import Converged, Estimates, Hessian, HessianSetUp, PyHessian
from flatfed.runs.paths import analyses_beside
from flatfed.runs.record import Digests, RunRecord
from flatfed.runs.run import Run
from flatfed.runs.run_config import RunConfig
from flatfed.tables.cells import Cell, summarise
from flatfed.tables.measurement import Measured
from repository import ROOT

DIGEST = "0" * 64


#: Complete settings of some run.
SETTINGS = {
    "format": 1,
    **{"scale": "paper", "protocol": "p", "split": "s", "algorithm": "fedavg", "seed": 1},
    "dataset": {"name": "problem", "classes": 3, "shape": [1, 8, 8], "mean": [0.4], "std": [0.25]},
    "partition": {"scheme": "iid", "clients": 6},
    "sampling": {"scheme": "bernoulli", "fraction": 0.5, "sampler": "keyed"},
    "model": {"name": "cnn_tiny", "options": {}},
    **{"rounds": 4, "batch_size": 4, "local_epochs": 2, "learning_rate": 0.2, "learning_rate_decay": 0.9},
    **{"weight_decay": 0.01, "clip_norm": 1.5, "augmentation": "none", "precision": "float64"},
    "update": {"name": "fedavg", "params": {}},
    "evaluation": {"every": 1, "sets": ["test"], "batch_size": 7},
    "executor": {"cpu": "stacked", "cuda": "stacked"},
}


def config(settings):
    """Return a run's complete settings: ``settings``, JSON, over :data:`SETTINGS`, also inside mappings."""
    merged = {
        key: SETTINGS[key] | value if isinstance(SETTINGS.get(key), dict) else value for key, value in settings.items()
    }
    return RunConfig(**SETTINGS | merged)


def run(folder, columns, *, settings=None, **record):
    """Write metrics.csv with ``columns`` (name -> values) and the record of a run that ended there; return the folder.

    The ids are those that the folder is named for, unless the ``settings`` of the run say otherwise; ``record`` holds
    what else its record says, or says otherwise.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lines = [",".join(columns), *(",".join(map(str, values)) for values in zip(*columns.values(), strict=True))]
    (folder / records.METRICS).write_text("\n".join(lines) + "\n", encoding="utf-8")
    rounds = columns["round"][-1] if columns.get("round") else 0
    about = {"rounds_done": rounds, "diverged_at": None, "dataset_digest": DIGEST, "partition_digest": DIGEST}
    about["versions"] = {"engine": versions.ENGINE}
    about["config"] = config({**ids(folder), "rounds": rounds or 1, **(settings or {})})
    files = tuple(folder / name for name in (records.METRICS, records.MODEL) if (folder / name).exists())
    records.write(folder / records.RECORD, RunRecord(**{**about, **record}), files)
    return str(folder)


def partition(path, counts):
    """Write a partition of clients that hold so many images of each class, ``counts`` (clients, classes)."""
    sizes = np.sum(counts, axis=1)
    dealt = {"indices": np.arange(sizes.sum()), "offsets": np.concatenate([[0], np.cumsum(sizes)])}
    partitions.write(path, {**dealt, "test": np.arange(0), "class_counts": np.asarray(counts)}, {})


def timing(path, settings, seconds, training=None, **changes):
    """Write the timing of the run with ``settings``: so many ``seconds`` of a round, of them of ``training``."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    training = seconds if training is None else training
    about = {
        **{"rounds": 3, "warm_up": 1, "clients": 6, "evaluated": {"every": 1, "sets": ["test", "train"]}},
        **{"device": "cpu", "threads": 2, "executor": "sequential", "precision": "float32", "parameters": 10},
        **{"host": {"processor": "a CPU", "gpu": None}, "training_seconds": [training] * 3},
    }
    names = ("seconds_per_round", "training_seconds_per_round", "evaluation_seconds_per_round")
    about |= zip(names, (seconds, training, seconds - training), strict=True)
    timings.write(path, timings.Timing(format=timings.FORMAT, config=config(settings), **{**about, **changes}))
    return str(path)


def edited(folder, file, change):
    """Copy config/ to ``folder``, unless it is there, apply ``change`` to a YAML ``file`` in it; return ``folder``."""
    if not (folder / "config").exists():
        shutil.copytree(ROOT / "config", folder / "config")
    path = folder / "config" / file
    import yaml  # the hosts of tests/gpu have none

    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return folder


#: Tables that the small configuration has.
TABLES = ("fedsmoo2023_T1", "fedsmoo2023_T6", "dfedsam2023_T1", "dfedsam2023_T3")


def small(folder, *names):
    """Copy config/ to ``folder`` without most tables and all figures but ``names``, which take most of a load.

    Printed numbers go with their tables, unless ``errata``, which are of all tables, is among the names.
    """
    edited(folder, "config.yaml", lambda config: config.update(tables=[], figures=[]))
    for path in (folder / "config").glob("[tfr]*/*.*"):
        kept = path.suffix == ".csv" and "errata" in names
        if not kept and path.stem not in (*TABLES, *names):
            path.unlink()
    references = {path.stem for path in (folder / "config/reference").iterdir()}

    def of_references(errata):
        for entry in errata.values():
            entry["tables"] = [table for table in entry.get("tables", ()) if table in references]

    return folder if "errata" in names else edited(folder, "errata.yaml", of_references)


def recorded(folder, change=lambda record: None):
    """Have the record of a run say what ``change`` does to it, of the files that lie there now, as if made so."""
    path = Path(folder, records.RECORD)
    record = json.loads(path.read_text(encoding="utf-8"))
    change(record)
    names = [name for name in (records.METRICS, records.MODEL) if path.with_name(name).exists()]
    files.write_sealed(path, record | {"files": {name: digest_file(path.with_name(name)) for name in names}})


def hessian(top, trace, theirs=None, warnings=(), **changes):
    """Return what a hessian.json says of good estimates: ``top`` eigenvalue and ``trace``, scaled a tenth of them.

    ``theirs``: PyHessian's two, None where it was left out. Residuals are 0.02 and 0.01, standard errors of the traces
    3 from 33 vectors and 4 from 65. ``changes`` are those of :func:`hessian_about`.
    """

    def estimates(top, trace):
        return Estimates(
            **{"top_eigenvalue": top, "trace": trace, "eigenvalues": [top], "residuals": [0.02]},
            **{"trace_standard_error": 3.0, "trace_vectors": 33},
            converged=Converged(eigenvalues=True, trace=True),
        )

    ours, other = estimates(top, trace), theirs and PyHessian(
        **{"version": "0.1", "top_eigenvalue": theirs[0], "residual": 0.01, "eigenvalue_converged": True},
        **{"trace": theirs[1], "trace_standard_error": 4.0, "trace_vectors": 65, "trace_converged": True},
    )
    both = {"unscaled": ours, "scaled": estimates(top / 10, trace / 10)}
    return Hessian(about=hessian_about(**changes), warnings=list(warnings), **both, pyhessian=other)


def hessian_about(**changes):
    """Return of what a Hessian is: of run p/s/a/seed1 at paper scale, but for ``changes``."""
    about = {
        **{"run": "p/s/a/seed1", "algorithm": "a", "scale": "paper", "digests": digests(), "loss": "a loss"},
        **{"set": "train", "images": 20, "images_of": 20, "parameters": 10, "precision": "float32"},
        **{"device": "cpu", "seed": 0},
        "settings": {**curvature.DEFAULTS, "top": 5, "vectors": 256, "micro_batch": 9, "block": 1},
    }
    return HessianSetUp(**{**about, **changes})


def hessian_of_diverged(**changes):
    """Return what a hessian.json says of a run that diverged in round 7."""
    return Hessian(about=hessian_about(**{"diverged_at": 7, **changes}))


def written(path, hessian):
    """Write a hessian.json, with its folder; return its path as a text."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    curvature.write(path, hessian)
    return str(path)


def unscaled(path):
    """Make of a hessian.json a converted one, which has estimates of the Hessian as it is alone."""
    record = json.loads(Path(path).read_text(encoding="utf-8"))
    later = ("scaled", "pyhessian_absent")
    files.write_sealed(path, record | dict.fromkeys(later))


def digests(**changes):
    """Return the digests of what an analysis is made of."""
    return Digests(**{**dict.fromkeys(("run", "model", "dataset", "partition"), DIGEST), **changes})


def landscape_model(algorithm, **changes):
    """Return what a landscape says of a model: of seed 1 of an ``algorithm`` at preview scale."""
    about = {"name": f"p/s/{algorithm}/seed1", "scale": "preview", "digests": digests(), "algorithm": algorithm}
    return landscape_file.SurfaceModel(**{**about, "diverged_at": None, **changes})


def landscape_about(models, **changes):
    """Return what a landscape of 5 points a direction says of itself."""
    about = {
        **{"models": models, "set": "train", "images": 9, "images_sha256": DIGEST, "seed": 0, "grid": 5, "range": 1.0},
        **{"device": "cpu", "precision": "float32"},
    }
    return landscape_file.LandscapeSetUp(**{**about, **changes})


def place(folder):
    """Return a folder below ``folder`` that has the name of a run's."""
    return Path(folder, "protocol", "split", "algorithm", "seed1")


def ids(folder):
    """Return the ids of the run that a folder is named for."""
    protocol, split, algorithm, seed = ("", *Path(folder).absolute().parts)[-4:]  # also of /tmp/NAME
    number = seed.removeprefix("seed")
    named = {"protocol": protocol, "split": split, "algorithm": algorithm}
    return {**named, "seed": int(number) if number.isdecimal() else 1}


@dataclass(frozen=True)
class RunElsewhere(Run):
    """A run whose analyses lie in files of any name. Tables name it by its folder."""

    hessian_file: str | None = None
    timing_file: str | None = None

    @property
    def hessian(self):
        return self.hessian_file or super().hessian

    @property
    def timing(self):
        return self.timing_file or super().timing

    @property
    def in_results(self):
        return self


def requested(folder, settings=None, partition=None, hessian=None, timing=None):
    """Return the run in ``folder`` as the configuration would request it, with the settings that its record has."""
    path = Path(folder, records.RECORD)
    if settings is None:
        settings = records.read(path).config.as_json() if path.exists() else {"rounds": 2, **ids(folder)}
    about = config(settings)
    files = {"hessian_file": hessian, "timing_file": timing, "analysis_folder": analyses_beside(str(folder))}
    files |= {"path": str(folder), "dataset": "data", "partition": partition}
    return RunElsewhere(scale=about.scale, **ids(folder), config=about, **files)


def table_runs(experiment, scale, table, columns=None):
    """Return the runs of a table, or of some of its columns, without duplicates."""
    return list(runs_of(numbers(experiment, scale, table, columns)).values())


def first_numbers(experiment, scale, table, columns=None):
    """Return the first number of each cell of a table, row by row."""
    return [cell[0] for cell in by_cell(numbers(experiment, scale, table, columns)).values()]


def first_number(experiment, scale, table, column, row):
    """Return the first number of a cell."""
    return numbers(experiment, scale, table, [column], row)[0]


def document(**keys):
    """Return the document of a table, with ``keys`` about the comparison with the paper."""
    return TableDocument(title="t", rows=["r"], columns=[{"protocol": "p"}], **keys)


def summary(*, unit, paper=None, **content):
    """Return the cell of :func:`cell_numbers`; ``unit``: the printed one, ``paper``: the fields of a printed number."""
    return summarise(cell_numbers(**content), unit, None if paper is None else Printed(**paper), document())


def cell_numbers(**content):
    """Return the numbers of a cell; keys that begin with ``base_`` are of the base row.

    ``runs``: folders, one per seed, or several with ``seeds``; ``analyses``: a hessian.json for each; ``timing``: a
    timing.json, of the first run or of the run ``timed``, settings; ``value``: a number.
    """
    metric = METRICS[content["metric"]]

    def part(whose):
        names = ("runs", "analyses", "timing", "timed")
        found = {name: content.pop(whose + name, None) for name in names}
        folders = found["runs"] or []
        analyses = found["analyses"] or [None] * len(folders)
        runs = [requested(folder, hessian=file) for folder, file in zip(folders, analyses, strict=True)]
        timed = None
        if found["timing"]:
            about = found["timed"] or runs[0].config.as_json()
            timed = requested(folders[0] if folders else "p/s/a/seed1", about, timing=found["timing"])
        return runs if metric.needs_runs or metric.analysis else [], timed

    (runs, timed), (bases, base_timed) = part(""), part("base_")
    seeds = tuple(content.pop("seeds", ())) or range(1, len(runs) + 1)
    content |= {"relative": content.get("relative") or metric.relative}
    content |= {"timed": timed, "base_timed": base_timed}
    if not runs:
        return [Number(**content)]
    step = len(runs) // len(seeds)
    parts = [{"runs": runs[at : at + step], "base_runs": bases[at : at + step]} for at in range(0, len(runs), step)]
    parts = [{key: tuple(runs) for key, runs in part.items()} for part in parts]
    return [Number(**content, seed=seed, **part) for seed, part in zip(seeds, parts, strict=True)]


def so_far(folder, columns, *, settings, **record):
    """Leave ``folder`` as a run that is not finished does: lines and record as far as they are, no run.json."""
    path = Path(run(folder, columns, settings=settings, **record))
    lines = path / records.LINES_SO_FAR
    (path / records.METRICS).rename(lines)
    (path / records.RECORD).unlink()
    about = {"rounds_done": columns["round"][-1], "diverged_at": None, **record}
    whole = {"dataset_digest": DIGEST, "partition_digest": DIGEST, **about}
    records.write(path / records.RECORD_SO_FAR, RunRecord(config=config(settings), **whole), (lines,))
    return str(path)


def cell(values, paper=None, spread=None, note="", **changes):
    """A cell of test accuracies by seed; ``paper`` as a fraction. ``changes``: of the cell, its number or document."""
    value = None if None in values else sum(values) / len(values)
    own = None if value is None or len(values) < 2 else statistics.stdev(values)
    about = {"table": "t", "column": "c", "row": "r", "scale": "paper", "metric": "test_accuracy"}
    unit = changes.pop("unit", "percent")
    keys = {key: changes.pop(key) for key in ("compare", "tolerance", "not_judged") if key in changes}
    of_number = {part.name for part in dataclasses.fields(Number)} - {"value", "rounds"}
    about |= {key: changes.pop(key) for key in of_number & {*changes}}
    factor = UNITS[unit].factor
    printed = Printed(paper and paper * factor, spread and spread * factor, note)
    measured = [Measured(Number(**about, seed=seed), number) for seed, number in enumerate(values, 1)]
    summary = {"status": "ok" if value is not None else "not_reached", "value": value, "spread": own, "n": len(values)}
    summary |= {"reached": None, "rounds": 0, **changes}
    comparison = {"printed_unit": unit, "printed": printed, "document": document(**keys)}
    return Cell(number=measured[0].number, measured=measured, **comparison, **summary)


def rounds_cell(values, paper=None, note="", **changes):
    """A cell of rounds to a target by seed, None where it was not reached."""
    unit = {"metric": "rounds_to_target", "unit": "rounds"}
    return cell(values, paper, note=note, **{**unit, **changes})
