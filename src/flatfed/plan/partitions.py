"""The partition, client sampling and topology of a split in a protocol at a scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flatfed.config.datasets import DatasetDocument
from flatfed.config.split import Split
from flatfed.data.keys import INHERITED, PartitionSettings, PartitionSpecification
from flatfed.plan.protocols import ResolvedProtocol
from flatfed.runs.run_config import SamplingSettings, TopologySettings


@dataclass(frozen=True)
class SplitSettings:
    """A split as in a run's settings; ``images``: the number of training images."""

    partition: PartitionSettings
    sampling: SamplingSettings
    topology: TopologySettings | None
    images: int

    def steps(self, batch_size: int, local_epochs: int | None, local_steps: int | None) -> int:
        """Return the gradient steps n K of a round: n the expected number of active clients.

        K = E ceil(n_i / B), or ``local_steps``.
        """
        clients, sampling = self.partition.clients, self.sampling
        active = clients if sampling.scheme == "all" else max(1, round(clients * sampling.fraction))
        return active * (local_steps or local_epochs * -(-(self.images // clients) // batch_size))


def of_split(
    split: str,
    protocol: ResolvedProtocol,
    scale: str,
    splits: Mapping[str, Split],
    datasets: Mapping[str, DatasetDocument],
) -> SplitSettings:
    """Return the settings of ``split`` in ``protocol`` at ``scale``.

    At preview scale the protocol's factors multiply clients and participation. The classes per client shrink with the
    number of classes (10 of 100 are 2 of 20). A held-out domain keeps its index.
    """
    entry, settings = splits[split], protocol.scales[scale]
    dataset, printed = (datasets[at.dataset] for at in (settings, protocol.at_paper_scale))
    scheme, classes = entry.scheme, dataset.classes
    clients = entry.clients if scheme != "domain" else entry.clients_per_domain
    if scheme != "central":
        clients = max(1, round(clients * settings.clients_times))
    keys = [key for key, schemes in PartitionSpecification.only.items() if scheme in schemes]
    of_scheme = {key: getattr(entry, key) for key in keys if key not in ("images_of", "held_out")}
    if scheme == "domain":
        of_scheme = {"clients_per_domain": clients, "held_out": printed.domains.index(entry.domain)}
        clients *= len(dataset.domains) - 1
    elif scheme == "dirichlet":
        of_scheme["alpha"] = float(entry.alpha)
    elif scheme == "pathological":
        of_scheme["classes_per_client"] = max(1, round(entry.classes_per_client * classes / printed.classes))
    elif entry.images_of:
        pooled = of_split(entry.images_of, protocol, scale, splits, datasets).partition
        of_scheme["images_of"] = pooled.model_dump(exclude_unset=True, exclude=INHERITED)
    if settings.client_test_images:
        of_scheme["client_test"] = settings.client_test_images
    shared = {"dataset": settings.dataset, "classes": classes, "clients": clients, "sampler": entry.sampler}
    fraction = min(1.0, round(entry.participation * settings.participation_times, 10))
    return SplitSettings(
        PartitionSettings(scheme=scheme, **shared, **of_scheme),
        SamplingSettings(scheme=entry.sampling, fraction=fraction, sampler=entry.sampler),
        topology(entry, settings.clients_times),
        dataset.train,
    )


def topology(entry: Split, clients_times: float = 1) -> TopologySettings | None:
    """Return the graph of a split's ``entry``, or None; ``clients_times`` multiplies the neighbours."""
    if not entry.topology:
        return None
    neighbours = {"neighbours": max(2, round(entry.neighbours * clients_times))} if entry.neighbours else {}
    return TopologySettings(graph=entry.topology, **neighbours)
