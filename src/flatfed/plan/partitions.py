"""The partition, client sampling and topology of a split in a protocol at a scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flatfed.config.split import Split
from flatfed.data import keys

if TYPE_CHECKING:
    from flatfed.plan.catalog import Catalog
    from flatfed.plan.protocols import ResolvedProtocol


@dataclass(frozen=True)
class SplitSettings:
    """A split as in a run's settings: ``partition`` without seed, client ``sampling``, and ``topology`` or None.

    ``images``: the number of training images.
    """

    partition: dict[str, Any]
    sampling: dict[str, Any]
    topology: dict[str, Any] | None
    images: int

    def steps(self, batch_size: int, local_epochs: int) -> int:
        """Return the gradient steps n K of a round: n the expected number of active clients, K = E ceil(n_i / B)."""
        clients = self.partition["clients"]
        active = clients if self.sampling["scheme"] == "all" else max(1, round(clients * self.sampling["fraction"]))
        return active * local_epochs * -(-(self.images // clients) // batch_size)


def of_split(split: str, protocol: ResolvedProtocol, scale: str, catalog: Catalog) -> SplitSettings:
    """Return the settings of ``split`` in ``protocol`` at ``scale``.

    At preview scale the protocol's factors multiply clients and participation. The classes per client shrink with the
    number of classes (10 of 100 are 2 of 20). A held-out domain keeps its index.
    """
    entry, settings = catalog.splits[split], protocol.scales[scale]
    dataset, printed = (catalog.datasets[at.dataset] for at in (settings, protocol.at_paper_scale))
    scheme, classes = entry.scheme, dataset.classes
    clients = entry.clients if scheme != "domain" else entry.clients_per_domain
    if scheme != "central":
        clients = max(1, round(clients * settings.clients_times))
    partition: dict[str, Any] = {"dataset": settings.dataset, "classes": classes, "scheme": scheme}
    of_scheme = (key for key, schemes in keys.PartitionSpecification.only.items() if scheme in schemes)
    declared = {key: getattr(entry, key, None) for key in of_scheme if key != "images_of"}
    partition |= {key: value for key, value in declared.items() if value is not None}
    partition["clients"] = clients
    if scheme == "domain":
        partition |= {"clients": clients * (len(dataset.domains) - 1), "clients_per_domain": clients}
        partition["held_out"] = printed.domains.index(entry.domain)
    elif scheme == "dirichlet":
        partition["alpha"] = float(entry.alpha)
    elif scheme == "pathological":
        partition["classes_per_client"] = max(1, round(entry.classes_per_client * classes / printed.classes))
    if settings.client_test_images:
        partition["client_test"] = settings.client_test_images
    partition["sampler"] = entry.sampler
    if entry.images_of:
        pooled = of_split(entry.images_of, protocol, scale, catalog).partition
        partition["images_of"] = {key: value for key, value in pooled.items() if key not in keys.INHERITED}
    fraction = min(1.0, round(entry.participation * settings.participation_times, 10))
    sampling = {"scheme": entry.sampling, "fraction": fraction, "sampler": entry.sampler}
    return SplitSettings(partition, sampling, topology(entry, settings.clients_times), dataset.train)


def topology(entry: Split, clients_times: float = 1) -> dict[str, Any] | None:
    """Return the graph of a split's ``entry``, or None; ``clients_times`` multiplies the neighbours."""
    if not entry.topology:
        return None
    spec = {"graph": entry.topology}
    if entry.neighbours:
        spec["neighbours"] = max(2, round(entry.neighbours * clients_times))
    return spec
