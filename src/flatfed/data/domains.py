"""The partition of a dataset of domains, one of which is held out for the test."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flatfed.data.keys import PartitionSpecification
from flatfed.data.streams import stream
from flatfed.errors import DataError


def leave_one_out(
    numbers: np.ndarray | None, names: Sequence[str], spec: PartitionSpecification
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return every client's training positions, and those of one domain as test set (FedLESAM section 6.1).

    ``numbers`` (n,): index of every image's domain in ``names``. ``clients_per_domain`` clients share each other
    domain evenly and at random, in the same way for every ``held_out``.

    :raises DataError: ``spec`` does not fit the domains.
    """
    key, dataset = "partition: clients_per_domain", f"dataset {spec.dataset!r}"
    if numbers is None:
        raise DataError(f"partition: scheme: domain, but {dataset} lists no `domains` in config/datasets.yaml")
    if spec.sampler == "official":
        raise DataError("partition: sampler: the official code of FedLESAM has no domains; allowed here: keyed")
    held_out, per_domain = spec.held_out, spec.clients_per_domain
    if held_out >= len(names):
        domains = f"its {len(names)} domains, from 0: {', '.join(names)}"
        raise DataError(f"partition: held_out: {held_out} is no domain of {dataset}; {domains}")
    if len(names) < 2:
        raise DataError(f"partition: {dataset} has only the domain {names[0]!r}; none is left to train")
    clients = per_domain * (len(names) - 1)
    if spec.clients not in (None, clients):
        raise DataError(f"{key}: {per_domain}, for {len(names) - 1} domains: clients: {clients}, not {spec.clients}")
    rng, parts = stream(spec.seed, "partition"), []
    for number, name in enumerate(names):
        members = rng.permutation(np.flatnonzero(numbers == number))
        if not len(members):
            raise DataError(f"partition: domain {name!r} of {dataset} holds no image")
        if number == held_out:
            continue
        if len(members) < per_domain:
            raise DataError(f"{key}: {per_domain}, but domain {name!r} of {dataset} has {len(members)} images")
        parts += np.array_split(members, per_domain)
    return parts, np.flatnonzero(numbers == held_out)
