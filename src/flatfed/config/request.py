"""config/config.yaml."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Tag

from flatfed.config.datasets import Source
from flatfed.config.document import Content, Document, optional, required
from flatfed.config.values import Different, Inches, NotEmpty, Seeds, by_type

Folders = Annotated[list[Annotated[str, Field(description="the path of a folder")]], Different]


#: Width of a figure over two columns of a conference page, inches.
TWO_COLUMNS = 7.0


class RequestedColumns(Document):
    """A table with some of its columns."""

    table: str = required("the id of a table")
    columns: Annotated[
        list[Annotated[str, Field(description="the id of a column, or a pattern with *")]], NotEmpty, Different
    ] = required("ids of columns; * matches any text, as in cifar10-*-100")


class Request(Document):
    scale: Literal["preview", "paper"] = required(
        "preview (embedded data, minutes on a laptop) or paper (the papers' own sizes)"
    )
    tables: list[Annotated[Annotated[str, Tag("string")] | Annotated[RequestedColumns, Tag("object")], by_type]] = (
        required("tables to build, ids of files in config/tables")
    )
    figures: Annotated[list[Annotated[str, Field(description="the id of a figure")]], Different] = required(
        "figures to build, ids of files in config/figures"
    )
    seeds: Seeds = optional("seeds of all runs, instead of those of tables and protocols; whole numbers from 1 up")
    data: dict[str, Annotated[Source, Field(description="a source of data, as in config/datasets.yaml")]] = (
        optional("sources of datasets on this machine, instead of those in config/datasets.yaml", {})
    )
    published: Annotated[
        list[Annotated[str, Field(pattern=r"^[^{}]+$", description="the path of a folder, without braces")]], Different
    ] = optional("folders with finished runs, which tables and figures take in place of a training", [])
    folders: Folders = optional("folders with your algorithms, models, tables and figures together", [])
    callbacks: Annotated[list[Annotated[str, Field(description="the path of a Python file")]], Different] = optional(
        "Python files with your callbacks, called around each round of a training", []
    )
    device: Literal["auto", "cpu", "cuda"] = optional("auto (a GPU if there is one), cpu or cuda", "auto")
    highlight: str = optional("an algorithm: a bold name in tables, the thickest line or outline in figures")
    width: Inches = optional("width of figures in inches, whose letters keep their size", TWO_COLUMNS)
    threads: Annotated[int, Field(ge=1, le=4096)] = optional(
        "CPU threads of one training job; preview jobs always use one"
    )


REQUEST = Content(Request)
