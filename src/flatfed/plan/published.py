"""Published runs (``published:`` of config.yaml) in place of trainings, and the order of their images."""

from __future__ import annotations

import contextlib
import functools
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from flatfed.config.datasets import LocalDataset, Source
from flatfed.data import manifest
from flatfed.engine import versions
from flatfed.errors import ConfigError, DataError
from flatfed.plan import run_specs
from flatfed.plan.experiment import Experiment
from flatfed.runs import record as records
from flatfed.runs.paths import Paths, RunIds, analyses_beside
from flatfed.runs.run import Run

if TYPE_CHECKING:
    from flatfed.data.order import Order


@functools.lru_cache(4096)
def shown(experiment: Experiment, ids: RunIds, analysis: str = "") -> Run:
    """Return the run of checked ``ids`` as tables and figures read it: its folder may be that of a published run.

    ``analysis``: the file of its analyses that they read, without which a published run does not serve. A published run
    in bfloat16 has the settings of its protocol. A published run of other settings or versions is named on stderr.

    :raises ConfigError: the published run was trained on other images than those of this machine.
    """
    run = run_specs.resolved(experiment, ids)
    if not (folder := experiment.published.get(run.path)):
        return run
    record = records.read_finished(folder)
    variant = replace(ids, protocol=record.config.protocol)
    config = run_specs.resolved(experiment, variant if variant.protocol in experiment.catalog.protocols else ids).config
    published = replace(run, path=folder, analysis_folder=analyses_beside(folder), config=config)
    if analysis and not Path(published.analysis_folder, analysis).exists():
        return run
    changes = record.config.deciding_differences(published.config)
    if changes := changes or list(filter(None, [versions.changes(record.config, record.versions)])):
        print(f"published: {folder} is not the requested {run.path}: {'; '.join(changes)}", file=sys.stderr)
        return run
    _check_images(experiment, published, record.dataset_digest)
    return published


def _check_images(experiment: Experiment, run: Run, recorded: str) -> None:
    """Raise ConfigError if the images of a published ``run``, with the digest ``recorded``, are not those here."""
    name, source = run.dataset, experiment.catalog.sources[run.dataset]
    digest, holder = _digest_here(experiment.paths, name), run.manifest
    if source.order:
        digest, holder = _order(source.order).digest, source.order
    if digest is None:
        unknown = f"the images of {name!r} are not here, so FlatFed cannot compare them with those of this run"
        raise ConfigError(f"published: {run.path}: {unknown}; fetch them first: snakemake --cores 1 {run.manifest}")
    if digest != recorded:
        file = order_file(experiment.request.published, name) or "FILE"
        other = f"trained on other images of {name!r}, or in another order, than those of {holder}"
        remedy = f"data: {json.dumps({name: {**source.as_written(), 'order': file}})}"
        effect = "puts the images into the order of this run, and runs of another order in results/ are trained again"
        raise ConfigError(f"published: {run.path}: {other}. In config.yaml, `{remedy}` {effect}; or remove the folder")


def ordered(
    folders: Iterable[str], paths: Paths, datasets: Mapping[str, LocalDataset], sources: Mapping[str, Source]
) -> dict[str, Source]:
    """Return ``sources`` with the order of the published runs in ``folders``.

    It applies to sources without an order, of as many images, which are not on this machine in another order.
    """
    result = dict(sources)
    for name, source in sources.items():
        file = order_file(folders, name)
        if file is None or source.order or source.source not in source.only["order"]:
            continue
        order, dataset = _order(file), datasets[name]
        same_size = [len(ranks) for ranks in order.ranks.values()] == [dataset.train, dataset.test]
        if same_size and _digest_here(paths, name) in (None, order.digest):
            result[name] = source.model_copy(update={"order": file})
    return result


def order_file(folders: Iterable[str], dataset: str) -> str | None:
    """Return the file orders/<dataset>.npz in one of ``folders`` or above it, or None."""
    files = (up / "orders" / f"{dataset}.npz" for folder in map(Path, folders) for up in (folder, *folder.parents))
    return next((str(file) for file in files if file.is_file()), None)


@functools.cache
def _order(file: str) -> Order:
    from flatfed.data import order  # imports NumPy

    return order.read(file, "published")


def _digest_here(paths: Paths, dataset: str) -> str | None:
    """Return the digest of the images of ``dataset`` on this machine, None without them."""
    with contextlib.suppress(OSError, DataError):
        return manifest.read(paths.manifest(dataset)).digest
    return None
