"""The versions of the components that determine a run's numbers.

Increase a component's version if its mathematics or random draws change, not for rounding. Golden values guard the
versions (``tests/oracle/test_golden_values.py``).
"""

from __future__ import annotations

from collections.abc import Iterable

from flatfed import algorithms, models
from flatfed.errors import ConfigError, DataError
from flatfed.runs.record import RunRecord
from flatfed.runs.run_config import RunConfig, differences

#: Version of rounds, client sampling, batches, augmentation, evaluation and topologies.
ENGINE = 1

Versions = dict[str, int | str]


def of_run(config: RunConfig) -> Versions:
    """Return the versions of a run's components. A run is stale if one of them differs."""
    from flatfed.data.schemes import VERSIONS

    return {
        "engine": ENGINE,
        "algorithm": of_algorithm(config.update.name),
        "model": of_model(config.model.name),
        "partition": VERSIONS[config.partition.scheme],
    }


def of_algorithm(name: str) -> int | str:
    """Return an algorithm's version; for a user's, the digest of its file and of the user's files that it imports.

    Versions of shipped base classes other than 1 precede the digest.
    """
    algorithm, own = algorithms.load(name), algorithms.FILES.imported(name)
    if own is None:
        return algorithm.version
    bases = [base for base in algorithm.__mro__ if base.__module__.rpartition(".")[2] in algorithms.SHIPPED]
    return "".join([*(f"{base.__name__} {base.version}, " for base in bases if base.version > 1), own.digest])


def of_model(name: str) -> int | str:
    own = models.FILES.imported(name)
    return own.digest if own else models.card(name).version


def changes(config: RunConfig, recorded: Versions | None) -> str:
    """Return "algorithm is version 1, now 2", "" if the versions are the present ones, or unknown."""
    try:
        different = differences(recorded, of_run(config)) if recorded else ()
    except ConfigError as error:
        return f"versions unknown here ({error})"
    texts = (f"{key} is version {was!s:.12}, now {now!s:.12}" for key, was, now in different if None not in (was, now))
    return "; ".join(texts)


def remarks(record: RunRecord) -> str:
    """Return :func:`changes`, "versions unknown" and the sources of a run that no commit has, in words, or ""."""
    sources = record.changed_sources and f"sources are {record.changed_sources}"
    versions = changes(record.config, record.versions) if record.versions else "versions unknown"
    return "; ".join(filter(None, [versions, sources]))


def check_same(records: Iterable[RunRecord], where: str) -> None:
    """Raise DataError if seeds of a run were trained by different versions of the code.

    Runs without versions are not compared.
    """
    first: dict[str, RunRecord] = {}
    for record in (record for record in records if record.versions):
        other = first.setdefault(record.name.rpartition("/")[0], record)
        if record.versions == other.versions:
            continue
        texts = {run.name: changes(run.config, run.versions) for run in (other, record)}
        if any(texts.values()):
            runs = " and ".join(f"{name} ({text or 'the present code'})" for name, text in texts.items())
            raise DataError(f"{where}: no mean over different code: {runs}; train them again")
