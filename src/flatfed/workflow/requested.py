"""What Snakemake can be asked for, and the message for a target that no rule makes."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from flatfed.errors import ConfigError, nearest
from flatfed.experiment import Experiment, scales
from flatfed.runs.places import SCALES

#: Options of Snakemake's that take no value, and those that take one.
FLAGS = (
    *("-n", "--dry-run", "--dryrun", "-p", "--printshellcmds", "-k", "--keep-going"),
    *("-f", "--force", "-F", "--forceall"),
)
VALUED = ("-c", "--cores", "-j", "--jobs", "--profile", "--workflow-profile")

#: Share of equal letters from which a word is taken for the misspelt name of a rule.
SLIP = 0.8


def files(experiment: Experiment) -> list[str]:
    """Return the files of both scales that a person asks for: tables, figures and reports."""
    places = experiment.places
    found = [places.errata]
    for scale in SCALES:
        tables, drawn = scales.there(experiment, scale, experiment.everything)
        found += [places.report(scale), *places.made(scale, [table for table, _ in tables], drawn)]
    return found


def written(words: Sequence[str], results: str, rules: Iterable[str], names: Collection[str] = ()) -> list[str]:
    """Return the ``words`` of a command line that are surely targets, but no ``rules``.

    They are files under ``results``, misspelt rules, and ``names`` of tables, figures and the report, alone, misspelt
    or as a file's stem: people ask for them, and Snakemake makes nothing of such a name.

    Snakemake says what its targets are only after the rules are read. A word is surely no option's value after ``--``
    and after an option of FLAGS, or of VALUED with its value; how many values other options take is not known.
    """
    rules, found, certain, wanted = list(rules), [], True, 0
    for word in words:
        if word == "--":
            certain, wanted = True, 0
        elif word.startswith("-"):
            certain, wanted = word in FLAGS or word in VALUED or "=" in word, int(word in VALUED)
        elif wanted:
            wanted -= 1
        elif certain and word not in rules:
            misspelt = difflib.get_close_matches(word, [*rules, *names], cutoff=SLIP)
            if misspelt or word.startswith(f"{results}/") or Path(word).stem in names:
                found.append(word)
    return found


def refuse(experiment: Experiment, target: str, rules: Iterable[str]) -> None:
    """Raise a ConfigError for ``target``, which no rule makes: the nearest rule or file, what can be asked for."""
    rules = sorted(rules)
    known = files(experiment)
    # Of a name alone, the first file of that name: preview before paper, where there are both.
    by_name = {Path(file).stem: file for file in reversed(known)}
    named = by_name.get(Path(target).stem) if not target.startswith("/") else None
    near = named if "/" not in target and named else nearest(target, [*rules, *known, *by_name]) or named
    near = by_name.get(near, near)
    meant = f"did you mean {near!r}? " if near else ""
    raise ConfigError(
        f"target {target!r}: no rule makes it; {meant}Targets are rules ({', '.join(rules)}) and files, such as "
        f"{experiment.places.table('preview', next(iter(experiment.tables)))[1]}"
    )
