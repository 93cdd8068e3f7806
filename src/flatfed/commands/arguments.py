"""Arguments that several sub-commands have, and the paths in their examples."""

from __future__ import annotations

import argparse

from flatfed.commands.kinds import CONFIG, count, file, folder, json_or_file, setting
from flatfed.runs.places import SCALES

RUN = "results/preview/runs/fedsmoo-cifar10/dir0.6-100/fedsmoo/seed1"
PARTITION = "results/preview/partitions/fedsmoo-cifar10/dir0.6-100/seed1.npz"


def add_path(sub: argparse.ArgumentParser, option: str, metavar: str, meaning: str) -> None:
    """Add a path that is required: that of a folder if ``metavar`` is DIR, else that of a file."""
    sub.add_argument(option, type=folder if metavar == "DIR" else file, required=True, metavar=metavar, help=meaning)


def add_folders(sub: argparse.ArgumentParser, meaning: str) -> None:
    """Add the folders that runs lie in."""
    sub.add_argument("folders", nargs="+", type=folder, metavar="FOLDER", help=meaning)


def add_tables(sub: argparse.ArgumentParser) -> None:
    """Add tables by their ids, and ``--scale``: see :func:`flatfed.commands.configuration.asked_tables`."""
    meaning = "tables, of the columns that config.yaml names if any (default: its tables)"
    sub.add_argument("tables", nargs="*", metavar="TABLE", help=meaning)
    add_scale(sub)


def add_ids(sub: argparse.ArgumentParser, *kinds: str) -> None:
    """Add an id of each of ``kinds``: table, column, row, figure, protocol and so on."""
    for kind in kinds:
        sub.add_argument(kind, metavar=kind.upper(), help=f"id of the {kind}")


def add_scale(sub: argparse.ArgumentParser) -> None:
    """Add ``--scale``."""
    sub.add_argument("--scale", choices=SCALES, help="the scale (default: the configuration's)")


def add_job(sub: argparse.ArgumentParser) -> None:
    """Add ``--scale``, ``--config`` and ``--digest``: the options of jobs that read the configuration."""
    add_scale(sub)
    add_config(sub)
    sub.add_argument("--digest", metavar="HEX", help="digest of the content that Snakemake requested")


def add_spec(sub: argparse.ArgumentParser, option: str, meaning: str) -> None:
    """Add a specification, given as JSON or as a JSON file."""
    sub.add_argument(option, type=json_or_file, required=True, metavar="JSON", help=f"{meaning}: JSON, or a file of it")


def add_weights(sub: argparse.ArgumentParser) -> None:
    """Add ``--weights``. The workflow writes it without a file where a run has no pre-trained weights."""
    meaning = "file of the pre-trained weights that the run names (`flatfed weights` makes it)"
    sub.add_argument("--weights", type=file, nargs="?", metavar="FILE", help=meaning)


def add_config(sub: argparse.ArgumentParser) -> None:
    """Add ``--config``."""
    sub.add_argument(
        CONFIG,
        action="append",
        type=setting,
        metavar="FILE|KEY=VALUE",
        help="the configuration (default: config/config.yaml), or values in place of its own, as Snakemake takes them",
    )


def add_device(sub: argparse.ArgumentParser) -> None:
    """Add ``--device`` and ``--threads``."""
    sub.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: a GPU if there is one")
    sub.add_argument("--threads", type=count, default=1, metavar="N", help="CPU threads of torch (default: 1)")
