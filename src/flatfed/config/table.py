"""The files of config/tables and a user's tables: a table, or declarations, or both."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, Tag, model_validator

from flatfed.config.algorithm import Algorithms
from flatfed.config.datasets import Datasets
from flatfed.config.document import Content, Document, mistake, optional, require, required
from flatfed.config.protocol import Protocol
from flatfed.config.split import Splits
from flatfed.config.values import ID_WORDS, Different, IdOfFile, Line, Names, NotEmpty, Seeds, by_type

PrintedKey = Literal[
    "metric", "unit", "dataset", "partition", "partition_param", "clients", "participation", "algorithm", "variant",
    "target",
]  # fmt: skip
Printed = Annotated[
    dict[
        PrintedKey,
        Annotated[
            Annotated[str, Tag("string")] | Annotated[int, Tag("integer")] | Annotated[float, Tag("number")],
            by_type,
            Field(description="as printed there"),
        ],
    ],
    Field(description="other words of the printed table, by column of config/reference"),
]
Base = Annotated[
    Annotated[str, Tag("string")]
    | Annotated[dict[str, Annotated[str, Field(description="the id of a row")]], Tag("object")],
    by_type,
]

ProtocolId = Annotated[IdOfFile, Field(description=f"{ID_WORDS}; variants stand in `variants` of their protocol")]

METRIC = "a metric of src/flatfed/plan/metrics.py; by default test_accuracy in percent"
UNIT = "the unit as printed"
LABEL = "the header above the numbers; the metric's name by default"
METRICS = "the numbers under each split, in the paper's order"
PRINTED = "other words of the printed table, by column of config/reference"


class Numbers(Document):
    """The numbers of a column: their header and their comparison with other rows."""

    metric: str = optional(METRIC)
    unit: str = optional(UNIT)
    label: Line = optional(LABEL)
    targets: Names = optional("names of the protocol's targets, for metrics that need one")
    relative: Literal["ratio", "speedup", "difference"] = optional(
        "comparison of a row with its base row - ratio (ours / base), speedup (base / ours), difference"
    )
    base: Base = optional("the base row, or base rows by row")


class MetricEntry(Numbers):
    """A metric under each split, and its format."""

    metric: str = required(METRIC)
    unit: str = optional(UNIT)
    decentralised: str = optional("the metric of rows without a server, if it differs")

    @model_validator(mode="after")
    def _is_one_comparison(self) -> Self:
        if self.decentralised and self.relative:
            raise mistake(["relative"], "a metric with `decentralised` is not relative")
        return self


class RowEntry(Document):
    row: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._~-]{0,127}$")] = required(
        "an id of config/algorithms.yaml"
    )
    label: Line = optional(LABEL)
    reference: Printed = optional(PRINTED, {})


Row = Annotated[Annotated[str, Tag("string")] | Annotated[RowEntry, Tag("object")], by_type]


class ColumnGroup(Numbers):
    """Columns that share a protocol."""

    part: Line = optional("the block of the table, such as 10% of 100 clients")
    id: IdOfFile = optional(
        "start of the ids of its columns, instead of dataset and split; letters, digits and . _ - only"
    )
    header: Line = optional("the header above them; the protocol's dataset by default")
    protocol: str = required("the id of a protocol")
    splits: Annotated[list[Annotated[str, Field(description="an id of config/splits.yaml")]], NotEmpty, Different] = (
        optional("ids of splits")
    )
    decentralised: str = optional("the split of decentralised rows; * is the column's split", "*")
    mean: bool = optional("true for one column that is the mean over the splits")
    reference: Printed = optional(PRINTED, {})
    metrics: Annotated[list[MetricEntry], NotEmpty] = optional(METRICS)


class Tolerance(Document):
    agrees: Annotated[float, Field(gt=0, le=1000)] = required("a positive number")
    near: Annotated[float, Field(gt=0, le=1000)] = required("a positive number")

    @model_validator(mode="after")
    def _agrees_is_near(self) -> Self:
        if self.agrees > self.near:
            raise mistake(["agrees"], f"expected at most {self.near:g}, the value of `near`")
        return self


class BothScales(Document):
    preview: Seeds = optional("seeds")
    paper: Seeds = optional("seeds")


SeedsByScale = Annotated[
    Annotated[Seeds, Tag("array")] | Annotated[BothScales, Tag("object")],
    by_type,
]


class Declarations(Document):
    """Declarations of a user in a file of tables."""

    datasets: Datasets = optional("datasets of your own, entries as in config/datasets.yaml")
    protocols: dict[ProtocolId, Protocol] = optional("protocols of your own, entries as the files of config/protocols")
    splits: Splits = optional("splits of your own, entries as in config/splits.yaml")
    algorithms: Algorithms = optional("labelled variants of your own, entries as in config/algorithms.yaml")


class TableDocument(Declarations):
    title: Line = required("what the table shows, in a few words")
    paper: Line = optional("the printed table, such as Sun et al., ICML 2023, Table 1; absent for your own table")
    reference: str = optional(
        "the file of config/reference with the printed numbers, without .csv; none (the default) without such numbers",
        "none",
    )
    reason: Line = optional("why no printed numbers exist; required if a paper's table has reference none")
    compare: Literal["values", "ordering"] = optional(
        "values (the default), or ordering if the set-up is not the paper's", "values"
    )
    tolerance: Tolerance = optional(
        "largest differences from the paper that agree and that are near, in points of accuracy, else in percent of "
        "the printed number"
    )
    not_judged: Names = optional("errata; numbers with one of them are printed, and not compared", ())
    pyhessian: bool = optional("whether Hessian metrics also show PyHessian's estimates; true by default", True)
    metric: str = optional(METRIC)
    quantity: Line = optional("name of the numbers, in words")
    unit: str = optional(UNIT)
    metrics: Annotated[list[MetricEntry], NotEmpty] = optional(METRICS)
    row_header: Line = optional("the header above the rows' names", "Algorithm")
    scales: Annotated[list[Literal["preview", "paper"]], NotEmpty, Different] = optional(
        "the scales with this table; both by default"
    )
    seeds: SeedsByScale = optional("seeds of this table, for both scales or by scale, instead of the protocols'")
    rows: Annotated[list[Row], NotEmpty, Different] = required("ids of algorithms, in the order of the rows")
    columns: Annotated[list[ColumnGroup], NotEmpty] = required(
        "groups of columns, in their order, such as [{protocol: ID, splits: [ID]}]"
    )
    notes: list[str] = optional("lines under the table", ())

    def metrics_of(self, group: ColumnGroup) -> list[MetricEntry]:
        """Return the metrics under each split of a ``group`` of columns: its own, else the table's, else accuracies."""
        alone = Numbers.model_fields.keys() & group.model_fields_set
        return [self._complete(entry) for entry in group.metrics or ([group] if alone else self.metrics) or [self]]

    def _complete(self, entry: Numbers | TableDocument) -> MetricEntry:
        metric = entry.metric or self.metric
        unit = entry.unit or self.unit or (None if metric else "percent")
        keys = {key: getattr(entry, key, None) for key in Numbers.model_fields}
        peers = entry.decentralised if isinstance(entry, MetricEntry) else None
        return MetricEntry.model_construct(
            **keys | {"metric": metric or "test_accuracy", "unit": unit, "decentralised": peers}
        )

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.paper:
            require(self, ("reference",))
        if self.paper and self.reference == "none":
            require(self, ("reason",))
        if self.reference not in (None, "none"):
            require(self, ("paper",))
        for index, group in enumerate(self.columns):
            if group.mean:
                require(group, ("id",), ["columns", index])
        return self


TABLE = Content(TableDocument)
DECLARATIONS = Content(Declarations)
