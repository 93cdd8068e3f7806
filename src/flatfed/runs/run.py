"""A run of the configuration and its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from flatfed.errors import DataError
from flatfed.files import digest_json
from flatfed.runs import curvature
from flatfed.runs import record as records
from flatfed.runs.paths import DEFAULT, Paths, RunIds
from flatfed.runs.record import METRICS, MODEL, RECORD, AnalysedModel, Digests, RunRecord
from flatfed.runs.run_config import RunConfig, difference_texts
from flatfed.runs.timing import TIMING

HESSIAN, CLIENTS = "hessian.json", "clients.csv"


@dataclass(frozen=True)
class Run(RunIds):
    """A run: protocol x split x algorithm x seed, one folder, one training job.

    ``path`` is its folder, ``analysis_folder`` that of its Hessian and surfaces, ``config`` all that the trainer
    reads. ``partition`` and ``weights`` (of pre-training) are files; ``partition`` is None in ``table --runs``, which
    does not check data. ``analyses``: the requested settings of its analyses by kind. ``absent``: not in the folder of
    runs that a table reads, so no file is read.
    """

    path: str
    analysis_folder: str
    dataset: str
    partition: str | None
    config: RunConfig
    weights: str | None = None
    analyses: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    absent: bool = False
    paths: Paths = field(default=DEFAULT, repr=False)

    @property
    def ids(self) -> RunIds:
        return RunIds(self.scale, self.protocol, self.split, self.algorithm, self.seed)

    @property
    def manifest(self) -> str:
        return self.paths.manifest(self.dataset)

    @property
    def files(self) -> list[str]:
        return [f"{self.path}/{METRICS}", self.record]

    @property
    def record(self) -> str:
        return f"{self.path}/{RECORD}"

    @property
    def model(self) -> str:
        return f"{self.path}/{MODEL}"

    @property
    def in_results(self) -> Run:
        """The run with its own folders in results/: tables name a run and its files so, wherever it is."""
        ids = self.config.ids
        return replace(self, path=self.paths.run(ids), analysis_folder=self.paths.analyses(ids))

    @property
    def hessian(self) -> str:
        return f"{self.analysis_folder}/{HESSIAN}"

    @property
    def clients(self) -> str:
        return f"{self.analysis_folder}/{CLIENTS}"

    @property
    def timing(self) -> str:
        """The same file for all seeds."""
        return f"{Path(self.analysis_folder).parent}/{TIMING}"

    @cached_property
    def deciding_digest(self) -> str:
        return digest_json(self.config.deciding)

    def surface(self, images: str | None = None) -> str:
        """Return the file of the surface on the set ``images`` (None: that of the protocol's ``analysis:``)."""
        return f"{self.analysis_folder}/surface{f'.{images}' if images else ''}.npz"

    def log(self, kind: str) -> str:
        return self.paths.log(kind, self.scale, self.name)

    def read_record(self, so_far: bool = False) -> RunRecord | None:
        """Return the record, with ``so_far`` also of an unfinished run; None if there is none.

        :raises DataError: the record is damaged, or of another run, partition or dataset.
        """
        path = Path(self.record)
        if so_far and not path.exists():
            path = path.with_name(records.RECORD_SO_FAR)
        try:
            record = records.read(path)
        except FileNotFoundError:
            return None
        record.check_config(str(path), self.config)
        if self.partition is not None:
            record.check_data(str(path), self.partition)
        return record

    def analysis_differences(self, file: str | Path) -> list[str]:
        """Return the differences between the recorded and the requested settings and version of an analysis.

        :raises DataError: ``file`` is absent or damaged.
        """
        if Path(file).name == CLIENTS:  # has no settings
            return []
        if Path(file).suffix == ".json":
            about, requested = curvature.read(file).about, {"version": curvature.VERSION, **curvature.DEFAULTS}
            requested |= self.analyses.get("hessian", {})
        else:
            from flatfed.runs import landscape_file  # imports NumPy

            about, requested = landscape_file.read(file).about, {"version": landscape_file.VERSION}
            images = Path(file).name.split(".")[1:-1]  # of surface.test.npz
            requested |= self.analyses.get("surface", {}) | dict(zip(["set"], images, strict=False))
        if about.images_of and "images" in requested:
            requested["images"] = min(requested["images"], about.images_of)
        recorded = {**getattr(about, "settings", {}), **about.model_dump()}
        return difference_texts({key: recorded.get(key) for key in requested}, requested)

    def check_analysis(self, file: str | Path, model: AnalysedModel) -> RunRecord | None:
        """Return :meth:`read_record`; DataError if ``file``, an analysis of ``model``, does not belong to it."""
        record = self.read_record()
        if record is None:
            return None
        remedy = f"rebuild it: snakemake --cores 1 -R {file} -- {file}"
        if texts := self.analysis_differences(file):
            raise DataError(f"{file}: not the requested analysis: {'; '.join(texts)}; {remedy}")
        scale = record.config.scale
        if (model.name, model.scale) != (record.name, scale):
            expected = f"{record.name} at {scale} scale"
            raise DataError(f"{file}: is of another run: {model.name} at {model.scale} scale, not {expected}; {remedy}")
        current = Digests.of_run(record, record.files.get(MODEL, model.digests.model))
        for key in ("dataset", "partition", "model"):
            analysed, present = getattr(model.digests, key), getattr(current, key)
            if analysed != present:
                digests = f"SHA-256 {analysed[:12]}, that of {self.path} is {present[:12]}"
                raise DataError(f"{file}: was made with another {key} ({digests}); {remedy}")
        return record
