"""What a figure is made of: its runs and their analyses, held against those asked for before anything is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flatfed.analysis.landscape import landscape_file
from flatfed.runs import curvature
from flatfed.runs import record as records
from flatfed.runs.record import RunRecord
from flatfed.runs.wanted import AnalysedModel, Wanted, folders, unpack


def hold(spec: dict[str, Any]) -> list[RunRecord]:
    """Return the records of the runs that a figure's specification names, those that are there.

    ``spec["made_of"]``, as :func:`flatfed.runs.wanted.pack` returns it, says which runs they are to be; without it,
    they are those that their folders are named for.

    :raises DataError: a run is damaged or another one, was trained on other data, or its lines are not those that its
        record was written with; an analysis is of another model than its run's.
    """
    named = folders(spec["panels"])
    wanted = unpack(spec["made_of"], named) if "made_of" in spec else {folder: Wanted(folder) for folder in named}
    found = []
    for folder, run in wanted.items():
        record = run.record()
        if record is None:
            continue
        found.append(record)
        if (Path(folder) / records.METRICS).is_file():
            record.check_files(folder, records.METRICS)
    for file, model, folder in _analyses(spec["panels"]):
        wanted[folder].analysed(file, model)
    return found


def without_sums(found: list[RunRecord]) -> str:
    """Return a sentence that counts the records without sums of their files, "" where all of them have them."""
    count = sum(not record.files for record in found)
    return f"{count} of {len(found)} runs are without sums of their files, made by an earlier version." if count else ""


def _analyses(panels: list[dict[str, Any]]) -> Iterator[tuple[str, AnalysedModel, str]]:
    """Yield (file, what it says of a model, folder of the model's run) of every analysis that is there."""
    for panel in panels:
        for bar in panel.get("bars", ()):
            for file, folder in zip(bar.get("hessians", ()), bar.get("runs", ()), strict=False):
                if Path(file).is_file():
                    yield file, curvature.read(file).model, folder
        for entry in panel.get("surfaces", ()):
            if "runs" in entry and Path(entry["surface"]).is_file():
                models = landscape_file.read(entry["surface"]).about.models
                for model in models[entry.get("model", 0) :][:1]:
                    yield entry["surface"], model, entry["runs"][0]
        for entry in panel.get("lines", ()):
            if "runs" in entry and Path(entry["line"]).is_file():
                models = landscape_file.read(entry["line"]).about.models
                yield from ((entry["line"], *pair) for pair in zip(models, entry["runs"], strict=False))
