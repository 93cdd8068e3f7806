"""config/splits.yaml."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from flatfed.config.document import Content, Document, mistake, optional, require, required
from flatfed.config.values import Count, IdOfFile, NotEmpty, Positive, Share, Text

#: All schemes of splits and partitions.
SCHEMES = ("iid", "dirichlet", "grouped_dirichlet", "pathological", "shards", "domain", "central")


class GroupedDirichletKeys(Document):
    """The keys of the scheme grouped_dirichlet; those of other schemes follow."""

    alpha: Positive = required("concentration of the label distribution of each client or group, above 0")


class DirichletKeys(GroupedDirichletKeys):
    replacement: bool = optional("true (the default) to restart an exhausted class, false to use no image twice", True)


class PathologicalKeys(Document):
    classes_per_client: Count = required("number of random classes of a client")


class ShardsKeys(Document):
    shards_per_client: Count = required("number of runs of the label-sorted images per client")
    assignment: Literal["different_classes", "permutation"] = optional(
        "different_classes (the default), no client has two shards of one class; permutation, any shards (McMahan et"
        " al. 2017), and some clients have a single class",
        "different_classes",
    )


class DomainKeys(Document):
    clients_per_domain: Count = required("number of clients per training domain")


class SplitDocument(Document):
    """The keys of the splits of all schemes.

    ``header``: the default label, whose braces hold keys of the split. ``printed``: the scheme in the column
    `partition` of config/reference, and the key whose value is in `partition_param`, or "".
    """

    header: ClassVar[str]
    printed: ClassVar[tuple[str, str]]

    label: Annotated[list[Text], NotEmpty] = optional(
        "the header levels above its columns, outermost first, such as [Dirichlet, u = 0.6]; by default from the scheme"
    )
    topology: Literal["ring", "grid", "exponential", "full", "clique", "neighbours", "regular"] = optional(
        "decentralised algorithms only, the graph on which clients exchange models"
    )
    neighbours: Count = optional(
        "with topology clique, neighbours or regular, number of clients that one averages with"
    )
    participation: Share = required("share of the clients active in a round, above 0 and at most 1")
    sampling: Literal["bernoulli", "fixed", "all"] = optional(
        "bernoulli (independent draws; the default), fixed (the same number each round) or all", "bernoulli"
    )

    @property
    def headers(self) -> list[str]:
        """The header levels above its columns."""
        return self.label or [self.header.format(**vars(self))]

    @property
    def related(self) -> dict[str, str]:
        """Key -> the other split that it names."""
        return {key: split for key in ("steps_of", "images_of") if (split := getattr(self, key, None))}

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.neighbours:
            require(self, ("topology",))
        if self.sampling == "all" and self.participation != 1:
            raise mistake(["participation"], "sampling all has 1")
        return self


class ClientsSplit(SplitDocument):
    clients: Count = required("number of clients")


class IidSplit(ClientsSplit):
    header: ClassVar = "IID"
    printed: ClassVar = ("iid", "")

    scheme: Literal["iid"] = required("every client has random images")


class DirichletSplit(ClientsSplit, DirichletKeys):
    header: ClassVar = "Dirichlet {alpha:g}"
    printed: ClassVar = ("dirichlet", "alpha")

    scheme: Literal["dirichlet"] = required("every client draws its label distribution")


class GroupedDirichletSplit(ClientsSplit, GroupedDirichletKeys):
    header: ClassVar = "Dirichlet {alpha:g}, in groups"
    printed: ClassVar = ("dirichlet", "alpha")

    scheme: Literal["grouped_dirichlet"] = required("every group of clients draws its label distribution")


class PathologicalSplit(ClientsSplit, PathologicalKeys):
    header: ClassVar = "{classes_per_client} classes a client"
    printed: ClassVar = ("pathological", "classes_per_client")

    scheme: Literal["pathological"] = required("every client has a few random classes")


class ShardsSplit(ClientsSplit, ShardsKeys):
    header: ClassVar = "{shards_per_client} shards a client"
    # DFedSAM, Table 3: shards of sorted labels, one class per shard.
    printed: ClassVar = ("pathological", "shards_per_client")

    scheme: Literal["shards"] = required("every client has runs of the label-sorted images")


class DomainSplit(SplitDocument, DomainKeys):
    header: ClassVar = "{domain}"
    printed: ClassVar = ("domain", "domain")

    scheme: Literal["domain"] = required("every client has images of one domain, and one domain is held out")
    domain: str = required("the domain held out for testing; the clients have the other domains")


class CentralSplit(ClientsSplit):
    header: ClassVar = "Centralised"
    printed: ClassVar = ("central", "")

    scheme: Literal["central"] = required("one client has all images")
    steps_of: str = optional("the split with the same number of gradient steps per round")
    images_of: str = optional(
        "the split whose clients' images are pooled, with repetitions; absent, all training images once each"
    )

    @model_validator(mode="after")
    def _has_one_client(self) -> Self:
        if self.clients != 1:
            raise mistake(["clients"], "scheme central has 1")
        return self


Split = Annotated[
    IidSplit | DirichletSplit | GroupedDirichletSplit | PathologicalSplit | ShardsSplit | DomainSplit | CentralSplit,
    Field(discriminator="scheme"),
]
Splits = Annotated[dict[IdOfFile, Split], NotEmpty]
SPLITS = Content(Splits)
