"""The files of config/figures."""

from __future__ import annotations

import itertools
from typing import Annotated, Literal, Self

from pydantic import Field, Tag, model_validator

from flatfed.config.document import Content, Document, optional, require, required
from flatfed.config.table import SeedsByScale
from flatfed.config.values import Different, Inches, Line, NotEmpty, Number, Odd, Seed, by_type

SPLIT = "an id of config/splits.yaml"
ROW = "an id of config/algorithms.yaml"
PROTOCOL = "an id of config/protocols"
ROWS = "ids of config/algorithms.yaml"
SPLITS = "one panel each, ids of config/splits.yaml; or `panels`"
PANELS = "the panels, in the paper's order"
TITLE = "what the figure shows"
PREVIEW = "false to leave it out at preview scale"
QUANTITY = (
    "a column of metrics.csv, test_accuracy by default; in curves also a measure of the probes, in surfaces loss or "
    "accuracy"
)

SplitIds = Annotated[list[Annotated[str, Field(description=SPLIT)]], NotEmpty, Different]
Rows = Annotated[list[Annotated[str, Field(description=ROW)]], NotEmpty, Different]
Window = Annotated[int, Field(ge=0, le=1_000_000_000), Odd]
Values = Annotated[list[Annotated[Number, Field(description="a number")]], NotEmpty, Different]


class Part(Document):
    """A part of a panel; absent keys are taken from the panel."""

    protocol: str = optional(PROTOCOL)
    split: str = optional(SPLIT)


class PointDocument(Part):
    """The runs of a value; absent keys are taken from the panel."""

    preview: bool = optional(PREVIEW, True)


class ValuesByScale(Document):
    preview: Values = required("values")
    paper: Values = required("values")


class Series(Part):
    """A line; absent keys are taken from the panel."""

    row: str = required(ROW)
    label: Line = optional(TITLE)
    preview: bool = optional(PREVIEW, True)


class DrawnPartition(Part):
    """A partition; absent keys are taken from the panel."""

    label: Line = required(TITLE)


class PanelDocument(Part):
    """A panel; absent keys are taken from the figure."""

    title: Line = optional("only a panel of one `split` takes its name")
    metric: str = optional(QUANTITY)
    splits: SplitIds = optional("splits whose mean is shown")
    rows: Rows = optional(ROWS)
    series: Annotated[list[Series], NotEmpty] = optional(
        "curves and surface only, one line or model each, instead of rows"
    )
    partitions: Annotated[list[DrawnPartition], NotEmpty] = optional("histogram only, one outline each")

    @model_validator(mode="after")
    def _has_a_title(self) -> Self:
        if "split" not in self.model_fields_set:
            require(self, ("title",))
        return self


class SweepPanel(PanelDocument):
    """A panel of a sweep; absent keys are taken from the figure."""

    parameter: str = required("what varies along the axis")
    axis: Line = optional("text of the axis; by default the name of a parameter that the algorithm declares")
    levels: Rows = optional("rows without the parameter, drawn as horizontal lines")
    values: Annotated[Annotated[Values, Tag("array")] | Annotated[ValuesByScale, Tag("object")], by_type] = optional(
        "values of the parameter next to the rows' own, for both scales or by scale; of `penalty` for beta and of `rho`"
        " for rho_per_learning_rate"
    )
    points: Annotated[list[PointDocument], NotEmpty] = optional(
        "one per value, for parameters that a split or a protocol sets"
    )

    @property
    def scales_of_values(self) -> dict[float, tuple[str, ...]]:
        """Value of a sweep -> the scales that show it."""
        listed = dict.fromkeys(ValuesByScale.model_fields, self.values or [])
        if isinstance(self.values, ValuesByScale):
            listed = dict(self.values)
        values = itertools.chain(*listed.values())
        return {value: tuple(scale for scale in listed if value in listed[scale]) for value in values}

    @model_validator(mode="after")
    def _has_values(self) -> Self:
        if not self.points:
            require(self, ("values",))
        return self


class SurfacePanel(PanelDocument):
    """A panel of one model or two; absent keys are taken from the figure."""

    rows: Annotated[Rows, Field(max_length=2)] = optional("one id of config/algorithms.yaml or two")
    series: Annotated[list[Series], Field(min_length=1, max_length=2)] = optional("one model or two, instead of rows")


Panels = Annotated[list[PanelDocument], NotEmpty]


class Smooth(Document):
    preview: Window = required("an odd number of evaluated rounds, or 0")
    paper: Window = required("an odd number of evaluated rounds, or 0")


class FigureDocument(Document):
    """The keys of figures of all kinds."""

    title: Line = required(TITLE)
    paper: Line = optional("the printed figure; absent for your own figure")
    caption: str = optional("text next to the figure")
    protocol: str = optional(PROTOCOL)
    decentralised: str = optional("the split of decentralised rows; * is the panel's split", "*")
    width: Inches = optional("inches, instead of `width` of config.yaml")


class SeedsFigure(FigureDocument):
    """A figure over several seeds."""

    seeds: SeedsByScale = optional("seeds of this figure, for both scales or by scale, instead of the protocols'")


class PanelsOrSplits(FigureDocument):
    splits: SplitIds = optional(SPLITS)
    panels: Panels = optional("the panels, in the paper's order, instead of splits")

    @model_validator(mode="after")
    def _has_panels(self) -> Self:
        if not self.panels:
            require(self, ("splits",))
        return self


class Curves(SeedsFigure, PanelsOrSplits):
    kind: Literal["curves"] = required("a quantity over the rounds")
    rows: Rows = optional(ROWS)
    metric: str = optional(QUANTITY)
    across: Literal["rounds", "communications"] = optional(
        "rounds (the default) or communications (rounds times gossip steps)"
    )
    smooth: Smooth = optional(
        "width of the Hanning window in evaluated rounds, by scale; 0 or 1 for none; 0 by default"
    )


class Sweep(SeedsFigure):
    kind: Literal["sweep"] = required("a quantity over a parameter")
    panels: Annotated[list[SweepPanel], NotEmpty] = required(PANELS)
    rows: Rows = optional(ROWS)
    metric: str = optional(QUANTITY)


class Bars(SeedsFigure):
    kind: Literal["bars"] = required("a quantity by row")
    protocol: str = required(PROTOCOL)
    splits: SplitIds = required("one panel each, ids of config/splits.yaml")
    rows: Rows = required(ROWS)
    metric: str = optional(QUANTITY)


class PartitionFigure(PanelsOrSplits):
    kind: Literal["partition"] = required("images per client and class")
    seed: Seed = required("the seed shown")


class Histogram(FigureDocument):
    kind: Literal["histogram"] = required("images per class")
    panels: Panels = required(PANELS)
    seed: Seed = required("the seed shown")


class Surface(FigureDocument):
    kind: Literal["surface"] = required("the loss around a model")
    panels: Annotated[list[SurfacePanel], NotEmpty] = required(PANELS)
    metric: str = optional(QUANTITY)
    set: Literal["train", "test"] = optional(
        "images of the loss, instead of those in the protocols' `analysis:`; train is the same set only for models of"
        " one split, test for models of all splits"
    )
    seed: Seed = optional("the seed shown")


class Eigenvalues(SeedsFigure):
    kind: Literal["eigenvalues"] = required("eigenvalues of the Hessian at the models")
    panels: Panels = required(PANELS)
    rows: Rows = optional(ROWS)


Figure = Annotated[
    Curves | Sweep | Bars | PartitionFigure | Histogram | Surface | Eigenvalues, Field(discriminator="kind")
]
FIGURE = Content(Figure)
