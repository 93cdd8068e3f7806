"""The runs that a cell, a figure or a report is made of: which runs are wanted, and whether those are on the disk."""

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


@dataclass(frozen=True, kw_only=True)
class Digests:
    """SHA-256 of what decides every number that is taken from a run's model.

    ``run`` is that of the run description, None where the record lacks it.
    """

    run: str | None
    model: str
    dataset: str
    partition: str

    @classmethod
    def of_run(cls, record: RunRecord, model: str) -> Digests:
        """Return those of the run of ``record``; ``model`` is that of its model file."""
        data = {"dataset": record.dataset_digest, "partition": record.partition_digest}
        return cls(run=record.description_digest, model=model, **data)


@dataclass(frozen=True, kw_only=True)
class AnalysedModel:
    """Whose model an analysis is of: the run's name, ``<protocol>/<split>/<algorithm>/seed<k>``, scale and digests."""

    name: str
    scale: str
    digests: Digests


@dataclass(frozen=True)
class Wanted:
    """The run that is asked for in ``folder``, by its ``description`` and the file of the ``partition`` it trains on.

    Figures and reports have the ``mark`` of the description instead (:func:`flatfed.runs.identity.mark`). With neither,
    the run is the one that its folder is named for. Without a partition, as for published runs, its data are not
    checked.
    """

    folder: str
    description: dict[str, Any] | None = None
    partition: str | None = None
    mark: str | None = None

    def record(self, so_far: bool = False) -> RunRecord | None:
        """Return the run's record, None where there is none; with ``so_far`` that of an unfinished run, too.

        :raises DataError: it is damaged, or of another run, another partition or other data.
        """
        path = Path(self.folder) / records.RECORD
        if so_far and not path.exists():
            path = path.with_name(records.RECORD_SO_FAR)
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

    def analysed(self, file: str | Path, model: AnalysedModel) -> RunRecord | None:
        """Return :meth:`record` if ``file`` is an analysis of this run's model; None where there is no record.

        ``model``: whose model it is of, as the file says.

        :raises DataError: as :meth:`record`, or the analysis is of another run or of another model of this run.
        """
        found = self.record()
        if found is None:
            return None
        again = f"make it again: snakemake --cores 1 -R {file} -- {file}"
        scale = found.description["scale"]
        if (model.name, model.scale) != (found.name, scale):
            wanted = f"{found.name} at {scale} scale"
            raise DataError(f"{file}: is of another run: {model.name} at {model.scale} scale, wanted {wanted}; {again}")
        ours = {
            "dataset": found.dataset_digest,
            "partition": found.partition_digest,
            "model": found.files.get(records.MODEL),
        }
        for key, digest in ours.items():
            theirs = getattr(model.digests, key)
            if digest is not None and theirs != digest:
                raise DataError(
                    f"{file}: was made with another {key} (SHA-256 {theirs[:12]}) than {self.folder} has "
                    f"({digest[:12]}); {again}"
                )
        return found


def pack(runs: Iterable[tuple[dict[str, Any], str | None]]) -> dict[str, Any]:
    """Return ``runs``, each (description, file of its partition or None), in a short form for :func:`unpack`.

    ``{"partitions": [FILE, ...], "runs": [[MARK, index of its partition], ...]}``. The runs are in the order of their
    folders, which the specification lists elsewhere and which are not repeated: a shell takes 128 kB.
    """
    places: dict[str | None, int] = {}
    each = [[identity.mark(about), places.setdefault(partition, len(places))] for about, partition in runs]
    return {"partitions": list(places), "runs": each}


def unpack(packed: dict[str, Any], folders: Iterable[str]) -> dict[str, Wanted]:
    """Return folder -> the run wanted in it, from the short form of :func:`pack` and the ``folders`` in its order.

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
    """Return the folders of the runs that the panels of a figure name under keys ``runs``, each folder once.

    Keys are visited in alphabetical order, so that the order of folders does not depend on who wrote the specification.
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
