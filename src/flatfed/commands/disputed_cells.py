"""``flatfed disputed``: cells that several sources print, side by side."""

from __future__ import annotations

import argparse
from functools import partial

from flatfed.commands import arguments, configuration, run_folders, text_page
from flatfed.errors import ConfigError
from flatfed.experiment import Experiment
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
    arguments.add_folders(sub, "a folder that holds runs of ours (default: results/published of this copy)", "*")
    text_page.add_out(sub)
    arguments.add_config(sub)


def run(options: argparse.Namespace) -> None:
    """Write the page to a file, Markdown or HTML by its suffix, or print it as Markdown.

    :raises ConfigError: config/sources.yaml or a file of config/reference is malformed.
    :raises DataError: a folder holds no runs, or a damaged one.
    """
    folders = options.folders or ([PUBLISHED] if PUBLISHED.is_dir() else [])
    if folders:
        found = run_folders.at_paper_scale(folders)
        experiment = run_folders.described_for(found, options.config)
        ours = at_own_settings(experiment, run_folders.as_far_as_trained(found, experiment))
    else:
        experiment, ours = configuration.load(options.config), {}
    labels = {name: entry["label"] for name, entry in experiment.catalog.algorithms.items()}
    sections = disputed_page.sections(experiment.printed_by, labels, ours)
    text_page.put(options.out, partial(disputed_page.page, sections))
    if options.out is not None:
        print(f"{options.out}: {disputed_page.sentence(experiment.printed_by)}")


def at_own_settings(described: Experiment, runs: list[Trained]) -> dict[tuple[Place, str], list[Trained]]:
    """Return those of ``runs`` that are at the papers' own settings, by place and algorithm."""
    found: dict[tuple[Place, str], list[Trained]] = {}
    for run in runs:
        if _is_own(described, run):
            found.setdefault((_place(described, run), run.ids.algorithm), []).append(run)
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
