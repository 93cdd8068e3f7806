"""config/datasets.yaml, and the sources under `data` of config/config.yaml."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, Tag, model_validator

from flatfed.config.document import Content, Document, mistake, optional, require, required
from flatfed.config.values import (
    Count,
    Different,
    Fraction,
    IdOfFile,
    Line,
    Location,
    NotEmpty,
    Positive,
    Shape,
    by_type,
)
from flatfed.errors import suggestion

Domain = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$",
        description="at most 64 letters, digits, - and _, not beginning with -",
    ),
]
DomainFolder = Annotated[
    str, Field(pattern=r"^[^/\\~.-][^/\\]{0,99}$", description="the name of one folder, without a slash")
]
STYLES = ("plain", "rotated", "inverted", "blurred", "shrunk", "shifted", "noisy")


class ImageCounts(Document):
    train: Count = required("number of training images")
    test: Count = required("number of test images")


Order = Annotated[str, Field(pattern=r"^[^{}]+$", max_length=1000)]
#: Keys of a source that are paths of one machine.
PATHS = ("path", "order")
ORDER = (
    "a file by studies/order.py, in whose order the images are put; relative as path is; without braces, which are "
    "wildcards to Snakemake"
)


class SourceDocument(Document):
    """The keys of all sources."""

    images: ImageCounts = optional(
        "under `data` of config/config.yaml only; numbers of images of this source, if they differ from the dataset's"
        " entry (a subset)"
    )

    @property
    def paths(self) -> dict[str, str]:
        """Key of :data:`PATHS` -> the path."""
        return {key: path for key in PATHS if (path := getattr(self, key, None))}


class Digits(SourceDocument):
    source: Literal["sklearn"] = required("scikit-learn's digits, which FlatFed contains")
    test: Count = required("number of test images")
    expand: Literal["rotate90", "styles"] = optional(
        "rotate90 adds ten classes, the digits turned by 90 degrees; styles draws each of the dataset's domains in the"
        " style of its name"
    )


class Download(SourceDocument):
    source: Literal["torchvision"] = required("a download with checksum")
    dataset: Literal["CIFAR10", "CIFAR100", "FashionMNIST", "EMNIST"] = required(
        "the name of a class of torchvision.datasets"
    )
    draw: Annotated[Count, Field(ge=2)] = optional(
        "size of a random subset with a fixed seed, training and test images in proportion"
    )
    path: Location = optional(
        "the archive or a folder with it, in place of a download; relative to the folder Snakemake runs in"
    )
    order: Order = optional(ORDER)


class ArrayFile(SourceDocument):
    source: Literal["npz"] = required("a file of arrays")
    path: Annotated[Location, Field(pattern=r"^[^{}]+$")] = required(
        "the file, relative to the folder Snakemake runs in; without braces, which are wildcards to Snakemake"
    )
    order: Order = optional(ORDER)


class ImageFolder(SourceDocument):
    source: Literal["imagefolder"] = required("folders of images")
    path: Location = required("the folder, relative to the folder Snakemake runs in")
    size: Count = required("images are resized to size x size pixels; without `resize` they are squeezed")
    resize: Count = optional("shorter side in pixels after scaling; size x size pixels are then cut out of the centre")
    domains: Annotated[
        Annotated[bool, Tag("boolean")] | Annotated[list[DomainFolder], Tag("array")],
        by_type,
    ] = optional(
        "true for the layout <domain>/<class>/<image>, with a fifth of each domain for testing; a list gives the names"
        " of the folders, in the order of the dataset's domains"
    )
    obtain: Location = optional("where to get the images; printed if they are missing")

    @model_validator(mode="after")
    def _is_cut_out(self) -> Self:
        if self.resize and self.resize < self.size:
            raise mistake(["resize"], f"it must be at least size, {self.size}, which is cut out of it")
        return self


Source = Annotated[Digits | Download | ArrayFile | ImageFolder, Field(discriminator="source")]


class DatasetDocument(Document):
    label: Line = optional("its name in tables; the id if absent")
    classes: Annotated[Count, Field(ge=2)] = optional(
        "number of classes, at least 2; counted if absent and the images are on disk"
    )
    domains: Annotated[list[Domain], Field(min_length=2), Different] = optional(
        "names of its domains, at least two; a split holds one out"
    )
    shape: Shape = optional(
        "[channels, height, width] of an image; read if absent and the images are on disk, in colour from folders"
    )
    train: Count = optional("number of training images; counted if absent and the images are on disk")
    test: Count = optional("number of test images; counted if absent and the images are on disk")
    mean: Annotated[list[Annotated[Fraction, Field(description="a number between 0 and 1")]], NotEmpty] = optional(
        "one number per channel, of pixels scaled to 0..1; 0.5 if absent and the images are on disk"
    )
    std: Annotated[list[Annotated[Positive, Field(description="a number above 0")]], NotEmpty] = optional(
        "one number above 0 per channel, of pixels scaled to 0..1; 0.25 if absent and the images are on disk"
    )
    source: Source = required(
        "where the images come from, such as {source: imagefolder, path: FOLDER, size: 32}; see config/datasets.yaml"
    )

    @model_validator(mode="after")
    def _fits_its_source(self) -> Self:
        if isinstance(self.source, Digits | Download):
            require(self, ("classes", "shape", "train", "test", "mean", "std"))
        if self.source.images:
            raise mistake(["source", "images"], "it is for `data` of config/config.yaml")
        if isinstance(self.source, Digits) and self.source.expand == "styles":
            for index, domain in enumerate(self.domains or ()):
                if domain not in STYLES:
                    raise mistake(["domains", index], suggestion(domain, STYLES))
        return self


class LocalDataset(DatasetDocument):
    """A complete dataset with the counts of this machine's images."""

    declared_images: Count = required("number of images of the published dataset")


SOURCE = Content(Source)
Datasets = Annotated[dict[IdOfFile, DatasetDocument], NotEmpty]
DATASETS = Content(Datasets)
