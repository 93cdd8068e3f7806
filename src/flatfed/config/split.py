"""config/splits.yaml."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import model_validator

from flatfed.config.document import Content, OfKind, mistake, optional, require, required
from flatfed.config.values import Count, IdOfFile, NotEmpty, Positive, Share, Text

#: Scheme -> the label of its splits; braces hold keys of the split.
LABELS = {
    "iid": "IID",
    "dirichlet": "Dirichlet {alpha:g}",
    "grouped_dirichlet": "Dirichlet {alpha:g}, in groups",
    "pathological": "{classes_per_client} classes a client",
    "shards": "{shards_per_client} shards a client",
    "domain": "{domain}",
    "central": "Centralised",
}


#: Key of splits and of partitions -> the schemes that have it.
KEYS_OF_SCHEMES = {
    "balanced": ("iid",),
    "alpha": ("dirichlet", "grouped_dirichlet"),
    "replacement": ("dirichlet",),
    "classes_per_client": ("pathological",),
    **dict.fromkeys(("shards_per_client", "assignment"), ("shards",)),
    "clients_per_domain": ("domain",),
    "images_of": ("central",),
}


class Split(OfKind):
    selects: ClassVar = "scheme"
    only: ClassVar = {
        **KEYS_OF_SCHEMES,
        **{"domain": ("domain",), "steps_of": ("central",)},
        "clients": tuple(scheme for scheme in LABELS if scheme != "domain"),
    }
    needed: ClassVar = {
        "iid": ("clients",),
        "dirichlet": ("alpha", "clients"),
        "grouped_dirichlet": ("alpha", "clients"),
        "pathological": ("classes_per_client", "clients"),
        "shards": ("shards_per_client", "clients"),
        "domain": ("domain", "clients_per_domain"),
        "central": ("clients",),
    }

    label: Annotated[list[Text], NotEmpty] = optional(
        "the header levels above its columns, outermost first, such as [Dirichlet, u = 0.6]; by default from the scheme"
    )
    scheme: Literal[*LABELS] = required("how images are partitioned among clients")
    alpha: Positive = optional("(grouped_)dirichlet only, concentration of each client's label distribution, above 0")
    classes_per_client: Count = optional("pathological only, number of random classes of a client")
    balanced: bool = optional("iid only; true for the same number of images of every class on every client", False)
    replacement: bool = optional(
        "dirichlet only; true (the default) to restart an exhausted class, false to use no image twice", True
    )
    shards_per_client: Count = optional("shards only, number of runs of the label-sorted images per client")
    assignment: Literal["different_classes", "permutation"] = optional(
        "shards only; different_classes (the default), no client has two shards of one class; permutation, any shards"
        " (McMahan et al. 2017), and some clients have a single class",
        "different_classes",
    )
    domain: str = optional("domain only, the domain held out for testing; the clients have the other domains")
    clients_per_domain: Count = optional("domain only, number of clients per training domain")
    topology: Literal["ring", "grid", "exponential", "full", "clique", "neighbours", "regular"] = optional(
        "decentralised algorithms only, the graph on which clients exchange models"
    )
    neighbours: Count = optional(
        "with topology clique, neighbours or regular, number of clients that one averages with"
    )
    steps_of: str = optional("central only, the split with the same number of gradient steps per round")
    images_of: str = optional(
        "central only, the split whose clients' images are pooled, with repetitions; absent, all training images once"
        " each"
    )
    clients: Count = optional("number of clients")
    participation: Share = required("share of the clients active in a round, above 0 and at most 1")
    sampling: Literal["bernoulli", "fixed", "all"] = optional(
        "bernoulli (independent draws; the default), fixed (the same number each round) or all", "bernoulli"
    )
    sampler: Literal["keyed", "official"] = optional(
        "keyed (FlatFed's random streams; the default) or official (the authors' generator, for comparison)", "keyed"
    )

    @property
    def headers(self) -> list[str]:
        """The header levels above its columns."""
        return self.label or [LABELS[self.scheme].format(**vars(self))]

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.neighbours:
            require(self, ("topology",))
        if self.scheme == "central" and self.clients != 1:
            raise mistake(["clients"], "scheme central has 1")
        if self.sampling == "all" and self.participation != 1:
            raise mistake(["participation"], "sampling all has 1")
        schemes = ("iid", "dirichlet", "pathological")
        for key, wrong, does in (
            ("scheme", self.scheme not in schemes, "makes iid, dirichlet and pathological partitions"),
            ("balanced", self.balanced, "makes iid partitions without balance"),
            ("replacement", self.replacement is False, "draws with replacement"),
        ):
            if wrong and self.sampler == "official":
                raise mistake([key], f"sampler official {does}; others: sampler keyed")
        return self


Splits = Annotated[dict[IdOfFile, Split], NotEmpty]
SPLITS = Content(Splits)
