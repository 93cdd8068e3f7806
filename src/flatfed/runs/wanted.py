"""The runs that a cell, a figure or a report is made of: which they are to be, and whether their files are theirs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatfed.errors import DataError
from flatfed.runs import identity
from flatfed.runs import record as records
from flatfed.runs.record import RunRecord


@dataclass(frozen=True)
class Wanted:
    """The run that is asked for in ``folder``: its ``description`` and the file of the ``partition`` it trains on.

    Figures and reports have the ``mark`` of a description in its place (:func:`flatfed.runs.identity.mark`). Without
    either it is what its folder is named for. Without a partition, as beside published runs, its data are not looked
    at.
    """

    folder: str
    description: dict[str, Any] | None = None
    partition: str | None = None
    mark: str | None = None

    def record(self) -> RunRecord | None:
        """Return the run's record, None where there is none.

        :raises DataError: it is damaged, or of another run, another partition or other data.
        """
        path = Path(self.folder) / records.RECORD
        try:
            found = records.read(path)
        except FileNotFoundError:
            return None
        if self.description is not None:
            identity.check_description(str(path), found, self.description)
        elif self.mark is not None:
            identity.check_mark(str(path), found, self.mark)
        else:
            identity.check_folder(path.parent, found)
        if self.partition is not None:
            identity.check_data(str(path), found, self.partition)
        return found

    def analysed(self, file: str | Path, model: dict[str, Any]) -> RunRecord | None:
        """Return :meth:`record`, None where there is none, of the run whose model ``file`` is an analysis of.

        ``model`` is what the analysis says of it: its ``name`` (``<protocol>/<split>/<algorithm>/seed<k>``), ``scale``
        and ``digests`` of dataset, partition and model.

        :raises DataError: as :meth:`record`, or the analysis is one of another run or of another model of it.
        """
        found = self.record()
        if found is None:
            return None
        again = f"make it again: snakemake --cores 1 -R {file} -- {file}"
        about = found.description
        try:
            made_with = {key: model["digests"][key] for key in ("dataset", "partition", "model")}
            whose = model["name"], model["scale"]
        except (KeyError, TypeError) as problem:
            raise DataError(f"{file}: does not say whose model it is of ({problem!r}); {again}") from None
        if whose != (found.name, about["scale"]):
            said = f"{whose[0]} at {whose[1]} scale, wanted {found.name} at {about['scale']} scale"
            raise DataError(f"{file}: is of another run: {said}; {again}")
        theirs = {
            "dataset": found.dataset_digest,
            "partition": found.partition_digest,
            "model": (found.files or {}).get(records.MODEL),
        }
        for what, digest in theirs.items():
            if digest is not None and made_with[what] != digest:
                made = f"was made with another {what} (SHA-256 {str(made_with[what])[:12]})"
                raise DataError(f"{file}: {made} than {self.folder} has ({digest[:12]}); {again}")
        return found


def pack(runs: Iterable[tuple[dict[str, Any], str | None]]) -> dict[str, Any]:
    """Return runs, each (description, file of its partition or None), short, for a specification that lists folders.

    ``{"partitions": [FILE, ...], "runs": [[MARK, place of its partition], ...]}``, in the order of the folders, which
    are not said again: a shell takes 128 kB. :func:`unpack` reads it.
    """
    places: dict[str | None, int] = {}
    each = [[identity.mark(about), places.setdefault(partition, len(places))] for about, partition in runs]
    return {"partitions": list(places), "runs": each}


def unpack(packed: dict[str, Any], folders: Iterable[str]) -> dict[str, Wanted]:
    """Return folder -> the run wanted in it, of :func:`pack`; a partition that is None there is not looked at.

    :raises DataError: it is not of as many runs as there are folders, or one has no place among the partitions.
    """
    folders = list(folders)
    if len(packed["runs"]) != len(folders):
        raise DataError(f"made_of.runs: {len(packed['runs'])} for {len(folders)} run folders")
    for place, about in enumerate(packed["runs"]):
        match about:
            case [str() | None, int() as partition] if 0 <= partition < len(packed["partitions"]):
                continue
        wanted = f"a mark and the place of one of its {len(packed['partitions'])} partitions are wanted"
        raise DataError(f"made_of.runs[{place}]: {json.dumps(about)}; {wanted}")
    return {
        folder: Wanted(folder, partition=packed["partitions"][place], mark=mark)
        for folder, (mark, place) in zip(folders, packed["runs"], strict=True)
    }


def folders(panels: Any) -> list[str]:
    """Return the folders of the runs that the panels of a figure name, each once: what stands under a key ``runs``.

    Keys are gone through in their order as texts, which a specification keeps whoever writes it.
    """
    return list(dict.fromkeys(_folders(panels)))


def _folders(value: Any, inside: bool = False) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in sorted(value.items()):
            yield from _folders(each, key == "runs")
    elif isinstance(value, list):
        for each in value:
            yield from _folders(each, inside)
    elif inside:
        yield value
