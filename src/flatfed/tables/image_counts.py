"""Texts on the images that the runs read, or that are on this machine: their number, doubts about their contents."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping

from flatfed.data import manifest as manifests
from flatfed.errors import DataError
from flatfed.plan.set_ups import DatasetSpec

#: {dataset name: {"train": images, "test": images}}, as in records and cells.
Counts = dict[str, dict[str, int]]


def with_counts(setting: str, datasets: Mapping[str, DatasetSpec], counts: Iterable[Counts] = ()) -> str:
    """Return ``setting`` with "(60,000 images of 32x32)" in place of ``{name}`` for each of ``datasets``.

    ``counts``: of the runs. Without them and a manifest, the text has the declared number and says so.

    :raises DataError: a dataset.json is damaged.
    """
    counts = list(counts)
    for name, dataset in datasets.items():
        setting = setting.replace(f"{{{name}}}", f"({_images(name, dataset, counts)})")
    return setting


def doubts(datasets: Mapping[str, DatasetSpec], contents: Iterable[tuple[str, str]]) -> list[str]:
    """Return :func:`flatfed.data.manifest.doubt` of ``contents``: dataset and digest of the data of runs."""
    notes = []
    for name, digest in sorted(contents):
        path, manifest = datasets[name].manifest if name in datasets else None, None
        with contextlib.suppress(FileNotFoundError, DataError):  # an unreadable one proves nothing
            manifest = manifests.read(path) if path else None
        notes.append(manifests.doubt(name, digest, manifest))
    return list(filter(None, notes))


def _images(name: str, dataset: DatasetSpec, counts: list[Counts]) -> str:
    _, height, width = dataset.shape
    numbers = {sum(of_run[name].values()) for of_run in counts if name in of_run}
    reason = "the records of the runs do not count them"
    if not numbers and dataset.manifest is not None:
        try:
            manifest = manifests.read(dataset.manifest)
            numbers, (_, height, width) = {manifest.train + manifest.test}, manifest.shape
        except FileNotFoundError:
            reason = "they are not on this machine"
    if not numbers:
        return f"{dataset.images:,} images of {height}x{width} declared; {reason}"
    part = f" of {dataset.of:,}" if min(numbers) < dataset.of else ""
    return f"{' or '.join(f'{count:,}' for count in sorted(numbers))}{part} images of {height}x{width}"
