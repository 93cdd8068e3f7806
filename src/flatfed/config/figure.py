"""The files of config/figures."""

from __future__ import annotations

import itertools
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, Tag, model_validator

from flatfed.config.document import Content, Document, mistake, optional, require, required
from flatfed.config.table import SeedsByScale
from flatfed.config.values import Different, Inches, Line, NotEmpty, Number, Odd, Seed, by_type

SPLIT = "an id of config/splits.yaml"
ROW = "an id of config/algorithms.yaml"
PROTOCOL = "an id of config/protocols"
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


class PointDocument(Document):
    """The runs of a value; absent keys are taken from the panel."""

    removed: ClassVar = {"variant": (None, "write its value into `values` of the panel, which declares the variant")}

    protocol: str = optional(PROTOCOL)
    split: str = optional(SPLIT)
    preview: bool = optional(PREVIEW, True)


class ValuesByScale(Document):
    preview: Values = required("values")
    paper: Values = required("values")


class Series(Document):
    """A line; absent keys are taken from the panel."""

    row: str = required(ROW)
    label: Line = optional(TITLE)
    protocol: str = optional(PROTOCOL)
    split: str = optional(SPLIT)
    preview: bool = optional(PREVIEW, True)


class DrawnPartition(Document):
    """A partition; absent keys are taken from the panel."""

    label: Line = required(TITLE)
    protocol: str = optional(PROTOCOL)
    split: str = optional(SPLIT)


class PanelDocument(Document):
    """A panel; absent keys are taken from the figure."""

    title: Line = optional("only a panel of one `split` takes its name")
    protocol: str = optional(PROTOCOL)
    metric: str = optional(QUANTITY)
    split: str = optional(SPLIT)
    splits: SplitIds = optional("splits whose mean is shown")
    rows: Rows = optional("ids of config/algorithms.yaml")
    parameter: str = optional("sweep only, what varies along the axis")
    levels: Rows = optional("sweep only, rows without the parameter, drawn as horizontal lines")
    values: Annotated[Annotated[Values, Tag("list")] | Annotated[ValuesByScale, Tag("mapping")], by_type] = optional(
        "sweep only, values of the parameter next to the rows' own, for both scales or by scale; of `penalty` for beta"
        " and of `rho` for rho_per_learning_rate"
    )
    points: Annotated[list[PointDocument], NotEmpty] = optional(
        "sweep only, one per value, for parameters that a split or a protocol sets"
    )
    series: Annotated[list[Series], NotEmpty] = optional(
        "curves and surface only, one line or model each, instead of rows"
    )
    partitions: Annotated[list[DrawnPartition], NotEmpty] = optional("histogram only, one outline each")

    @property
    def scales_of_values(self) -> dict[float, tuple[str, ...]]:
        """Value of a sweep -> the scales that show it."""
        listed = dict.fromkeys(ValuesByScale.model_fields, self.values or [])
        if isinstance(self.values, ValuesByScale):
            listed = dict(self.values)
        values = itertools.chain(*listed.values())
        return {value: tuple(scale for scale in listed if value in listed[scale]) for value in values}

    @model_validator(mode="after")
    def _has_a_title(self) -> Self:
        if "split" not in self.model_fields_set:
            require(self, ("title",))
        return self


class Smooth(Document):
    preview: Window = required("an odd number of evaluated rounds, or 0")
    paper: Window = required("an odd number of evaluated rounds, or 0")


#: Kind of figure -> the keys that it needs.
NEEDED = {
    "curves": (),
    "sweep": ("panels",),
    "bars": ("protocol", "splits", "rows"),
    "partition": ("seed",),
    "histogram": ("panels", "seed"),
    "surface": ("panels",),
    "eigenvalues": ("panels",),
}
#: Kind of figure -> keys that it does not have.
WITHOUT = {
    "curves": ("set",),
    "sweep": ("splits", "smooth", "across", "set"),
    "bars": ("panels", "smooth", "across", "set"),
    "partition": ("metric", "rows", "smooth", "across", "set"),
    "histogram": ("splits", "metric", "rows", "smooth", "across", "set"),
    "surface": ("splits", "rows", "smooth", "across"),
    "eigenvalues": ("splits", "metric", "smooth", "across", "set"),
}
ONE_SEED = ("partition", "histogram", "surface")


class FigureDocument(Document):
    kind: Literal["curves", "sweep", "bars", "partition", "histogram", "surface", "eigenvalues"] = required(
        "curves (a quantity over the rounds), sweep (a quantity over a parameter), bars, partition (images per client"
        " and class), histogram (images per class); surface (the loss around a model), eigenvalues (of the Hessian at"
        " the models)"
    )
    title: Line = required(TITLE)
    paper: Line = optional("the printed figure; absent for your own figure")
    caption: str = optional("text next to the figure")
    protocol: str = optional(PROTOCOL)
    splits: SplitIds = optional("one panel each, ids of config/splits.yaml; or `panels`")
    panels: Annotated[list[PanelDocument], NotEmpty] = optional("the panels, in the paper's order, instead of splits")
    rows: Rows = optional("ids of config/algorithms.yaml")
    decentralised: str = optional("the split of decentralised rows; * is the panel's split", "*")
    metric: str = optional(QUANTITY)
    across: Literal["rounds", "communications"] = optional(
        "curves only, rounds (the default) or communications (rounds times gossip steps)"
    )
    smooth: Smooth = optional(
        "curves only, width of the Hanning window in evaluated rounds, by scale; 0 or 1 for none; 0 by default"
    )
    set: Literal["train", "test"] = optional(
        "surface only, images of the loss, instead of those in the protocols' `analysis:`; train is the same set only"
        " for models of one split, test for models of all splits"
    )
    width: Inches = optional("inches, instead of `width` of config.yaml")
    seeds: SeedsByScale = optional("seeds of this figure, for both scales or by scale, instead of the protocols'")
    seed: Seed = optional("partition, histogram and surface only, the seed shown")

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> Self:
        require(self, NEEDED[self.kind])
        if self.kind in ("curves", "partition") and not self.panels:
            require(self, ("splits",))
        for key in WITHOUT[self.kind]:
            if key in self.model_fields_set:
                raise mistake([key], "this kind of figure does not have it")
        one, several = ("seeds", "`seed`, one") if self.kind in ONE_SEED else ("seed", "`seeds`, a list")
        if one in self.model_fields_set:
            raise mistake([one], f"this kind of figure has {several}")
        for index, panel in enumerate(self.panels or ()):
            if self.kind == "sweep":
                require(panel, ("parameter", *(() if panel.points else ("values",))), ["panels", index])
            for key in ("parameter", "values", "points", "levels") if self.kind != "sweep" else ():
                if key in panel.model_fields_set:
                    raise mistake(["panels", index, key], "only a sweep has it")
            for key in ("rows", "series") if self.kind == "surface" else ():
                if len(getattr(panel, key) or ()) > 2:
                    raise mistake(["panels", index, key], "one model or two in a panel")
        return self


FIGURE = Content(FigureDocument)
