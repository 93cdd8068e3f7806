"""``flatfed disputed``: cells that several sources print, side by side."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from flatfed.commands import arguments, configuration, kinds
from flatfed.commands.results import runs_in
from flatfed.errors import ConfigError, DataError, unknown
from flatfed.experiment import Experiment
from flatfed.files import write_whole
from flatfed.papers import reference
from flatfed.papers.printed_sources import Place
from flatfed.tables import disputed_page, own_setting
from flatfed.tables.own_setting import Trained

DETAIL = """\
Every cell that two sources of config/sources.yaml or more print (the papers, later papers, public READMEs):
their numbers, how far they are apart, whether the sources rank the algorithms alike, and what differs
between their set-ups. With folders of runs at a paper's own setting, finished or not, our number stands
beside theirs, read after as many rounds and in the same way as theirs."""
EXAMPLE = "python -m flatfed disputed results/published --out results/disputed.html"

#: Runs that came with this copy of FlatFed.
PUBLISHED = configuration.HOME / "results/published"


def add(sub: argparse.ArgumentParser) -> None:
    """Add what the sub-command takes."""
    sub.add_argument(
        "folders",
        nargs="*",
        type=kinds.folder,
        metavar="FOLDER",
        help="a folder that holds runs of ours (default: results/published of this copy)",
    )
    sub.add_argument(
        "--out", type=kinds.file, metavar="FILE", help="write a .md or .html file instead of printing Markdown"
    )
    arguments.add_config(sub)


def run(options: argparse.Namespace) -> None:
    """Write the page to a file, Markdown or HTML by its suffix, or print it as Markdown.

    :raises ConfigError: config/sources.yaml or a file of config/reference is malformed.
    :raises DataError: the suffix is another one, or a folder holds no runs, or a damaged one.
    """
    if options.out is not None and options.out.suffix not in disputed_page.FORMATS:
        raise DataError(unknown("suffix", options.out.suffix, disputed_page.FORMATS, str(options.out)))
    experiment = configuration.load(options.config)
    known = experiment.printed_by
    labels = {name: entry["label"] for name, entry in experiment.catalog.algorithms.items()}
    folders = options.folders or ([PUBLISHED] if PUBLISHED.is_dir() else [])
    found = disputed_page.sections(known, labels, ours(folders, options.config))
    text = disputed_page.FORMATS[".md" if options.out is None else options.out.suffix](found)
    if options.out is None:
        sys.stdout.write(text)
        return
    with write_whole(options.out, "w") as file:
        file.write(text)
    print(f"{options.out}: {disputed_page.sentence(known)}")


def ours(folders: list[Path], config: configuration.Parts) -> dict[tuple[Place, str], list[Trained]]:
    """Return our runs at the papers' own settings in ``folders``, by place and algorithm."""
    if not folders:
        return {}
    _, described, runs = runs_in(folders, config)
    found: dict[tuple[Place, str], list[Trained]] = {}
    for one in runs:
        if _is_own(described, one):
            found.setdefault((_place(described, one), one.ids.algorithm), []).append(one)
    return found


def _is_own(described: Experiment, run: Trained) -> bool:
    """Return whether a run is at the setting that its protocol has without any label."""
    try:
        asked = described.run("paper", run.ids.protocol, run.ids.split, run.ids.algorithm, run.ids.seed)
    except ConfigError:  # a split or an algorithm that the plain protocol does not have
        return False
    return own_setting.is_described(run, asked.description)


def _place(described: Experiment, run: Trained) -> Place:
    """Return what column of the sources' tables a run belongs to."""
    about = run.description
    keys = reference.keys_of_split(described.catalog.splits[run.ids.split], about["partition"]["clients"])
    return Place(about["dataset"]["name"], about["model"]["name"], *map(reference.comparable, keys.values()))
