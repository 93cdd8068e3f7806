"""Leaving one domain out: its images are the test set, the others' are dealt to clients (FedLESAM section 6.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flatfed.data.streams import stream
from flatfed.errors import DataError


def leave_one_out(
    numbers: np.ndarray | None, names: Sequence[str], spec: dict[str, Any]
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return every client's training positions and the test positions.

    ``numbers`` (n,) the domain of every image, an index into ``names``; ``spec`` the partition spec with ``held_out``,
    the index of the test domain, and ``clients_per_domain``. Clients follow the order of domains. A domain's images,
    training and test images of its data set, are dealt at random, as evenly as possible: the clients of a domain differ
    by at most one image, and nothing is left over. A domain is dealt in the same way whichever one is held out.
    Raises DataError for a data set without domains and for what does not fit ``names``.
    """
    where, dataset = "partition: clients_per_domain", f"dataset {spec['dataset']!r}"
    if numbers is None:
        raise DataError(f"partition: scheme: domain, but {dataset} lists no `domains` in config/datasets.yaml")
    if spec.get("sampler", "keyed") != "keyed":
        raise DataError("partition: sampler: the official code of FedLESAM has no domains; allowed here: keyed")
    held_out, each = spec["held_out"], spec["clients_per_domain"]
    if held_out >= len(names):
        domains = f"its {len(names)} domains, from 0: {', '.join(names)}"
        raise DataError(f"partition: held_out: {held_out} is no domain of {dataset}; {domains}")
    if len(names) < 2:
        raise DataError(f"partition: {dataset} has only the domain {names[0]!r}; none is left to train")
    clients = each * (len(names) - 1)
    if spec.get("clients", clients) != clients:
        raise DataError(f"{where}: {each}, for {len(names) - 1} domains: clients: {clients}, not {spec['clients']}")
    rng, parts = stream(spec["seed"], "partition"), []
    for number, name in enumerate(names):
        own = rng.permutation(np.flatnonzero(numbers == number))
        if not len(own):
            raise DataError(f"partition: domain {name!r} of {dataset} holds no image")
        if number == held_out:
            continue
        if len(own) < each:
            raise DataError(f"{where}: {each}, but domain {name!r} of {dataset} has {len(own)} images")
        parts += np.array_split(own, each)
    return parts, np.flatnonzero(numbers == held_out)
