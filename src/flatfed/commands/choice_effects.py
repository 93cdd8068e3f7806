"""``flatfed effects``: what one choice does, from the cells of a table of effects."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import asdict

from flatfed.commands import arguments, configuration, kinds
from flatfed.errors import ConfigError, unknown
from flatfed.experiment import SCALES, Asked, Experiment, scales, selection
from flatfed.files import write_json
from flatfed.tables import effects, filled_table
from flatfed.tables.effects import Effect
from flatfed.tables.filled_table import FilledTable

DETAIL = """\
Reads the cells that `snakemake` has made of tables of kind `effects` (config/tables/effects.yaml): a row
is a choice, such as what public code does otherwise than its paper, taken against the form it differs
from, seed by seed, over all columns of its table. Says of each the difference with its 95 % interval, the
exact two-sided p of a sign-flip test over the seeds, that p by Holm over all choices, and
  differs                 the corrected p is at most 0.05
  less than half a point  the interval lies within half a point of no difference
  open                    neither: more seeds would tell (docs/compare-with-a-paper.md)"""
EXAMPLE = "python -m flatfed effects --scale preview"


def add(sub: argparse.ArgumentParser) -> None:
    """Add what the sub-command takes."""
    sub.add_argument("tables", nargs="*", metavar="TABLE", help="ids of such tables (default: all there are)")
    sub.add_argument("--scale", choices=("preview", "paper"), help="the scale (default: all that a table has)")
    sub.add_argument("--json", type=kinds.file, metavar="FILE", help="write everything as JSON, too")
    arguments.add_config(sub)


def run(options: argparse.Namespace) -> None:
    """Print what the choices of the tables come to.

    :raises ConfigError: there is no such table, it is of another kind, or there is none at the scale.
    :raises DataError: a cell is damaged.
    """
    experiment = configuration.load(options.config)
    found = []
    for table, columns, scale in _asked(experiment, options.tables, options.scale):
        filled = filled_table.read(experiment.table_spec(scale, table, columns))
        pooled = effects.pooled(filled)
        print("\n".join(lines(filled, pooled)))
        if not pooled:
            print(f"  snakemake --cores all {experiment.places.table(scale, table)[0]}")
        choices = [{**asdict(effect), "verdict": effect.verdict} for effect in pooled]
        found.append({"table": table, "scale": scale, "choices": choices})
    if options.json is not None:
        write_json(options.json, found)


def _asked(experiment: Experiment, names: list[str], scale: str | None) -> list[tuple[str, list[str] | None, str]]:
    """Return each table asked for, the columns that config.yaml names of it, and each scale that it is wanted at.

    What there is not at a scale that is wanted, since its seeds are fewer than its test needs or it is declared for the
    other one, is said; a table that is asked for by name and is at none is refused.
    """
    known = [name for name, table in experiment.tables.items() if table.kind == "effects"]
    for name in names:
        if name in experiment.tables and name not in known:
            raise ConfigError(f"table {name!r} is not of kind effects; those that are: {', '.join(known) or 'none'}")
        if name not in known:
            raise ConfigError(unknown("table", name, known, "tables of kind effects"))
    found = []
    for table in selection.with_columns(experiment, names or known):
        name, columns = table
        wanted = [scale] if scale else experiment.tables[name].settings.get("scales", SCALES)
        there = [one for one in wanted if scales.has_table(experiment, one, name, columns)]
        if names and not there:
            scales.refuse_table(experiment, wanted[0], name, columns)
        found += [(name, columns, one) for one in there]
        for one in wanted:
            for line in scales.left_out(experiment, one, Asked([table], [])):
                print(line, file=sys.stderr)
    return found


def lines(table: FilledTable, pooled: list[Effect]) -> Iterator[str]:
    """Yield what the choices of a table come to, line by line."""
    yield f"{table.spec.table}: {effects.sentence(table, pooled)}"
    width = max((len(effect.label) for effect in pooled), default=0)
    for effect in pooled:
        difference, p, corrected, verdict = effect.texts
        yield f"  {effect.label:{width}}  {difference:22}  p {p:6}  Holm {corrected:6}  {verdict}"
