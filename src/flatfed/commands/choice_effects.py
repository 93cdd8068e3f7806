"""``flatfed effects``: what one choice does, from the cells of a table of effects."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from flatfed.commands import arguments, configuration, kinds
from flatfed.errors import ConfigError, unknown
from flatfed.experiment import Experiment, scales
from flatfed.files import write_json
from flatfed.specs.table import TableSpec
from flatfed.tables import blocks, effects
from flatfed.tables.effects import Effect

DETAIL = """\
Reads the cells that `snakemake` has made of tables of kind `effects` (config/tables/effects.yaml): a row
is a choice, such as what public code does otherwise than its paper, taken against the form it differs
from, seed by seed, over all columns of its table. Says of each the difference with its 95 % interval, the
exact two-sided p of a sign-flip test over the seeds, that p by Holm over all choices, and
  differs                 the corrected p is at most 0.05
  less than half a point  the interval lies within half a point of no difference
  open                    neither: more seeds would tell (`flatfed plan --power`)"""
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
    for table, scale in _asked(experiment, options.tables, options.scale):
        spec = experiment.table_spec(scale, table)
        cells = {(col.id, row.id): blocks.cell_of(spec, col.id, row.id) for row in spec.rows for col in spec.columns}
        pooled = effects.pooled(spec, cells)
        print("\n".join(lines(spec, pooled)))
        found.append({"table": table, "scale": scale, "choices": [_plain(effect) for effect in pooled]})
    if options.json is not None:
        write_json(options.json, found)


def _asked(experiment: Experiment, names: list[str], scale: str | None) -> Iterator[tuple[str, str]]:
    """Yield each table asked for with each scale that it is wanted at."""
    known = [name for name, table in experiment.tables.items() if table.settings.get("kind") == "effects"]
    for name in names:
        if name in experiment.tables and name not in known:
            raise ConfigError(f"table {name!r} is not of kind effects; those that are: {', '.join(known) or 'none'}")
        if name not in known:
            raise ConfigError(unknown("table", name, known, "tables of kind effects"))
    for name in names or known:
        has = experiment.tables[name].settings.get("scales", ["preview", "paper"])
        for one in [scale] if scale and names else [each for each in has if scale in (None, each)]:
            scales.refuse_table(experiment, one, name, None)
            yield name, one


def lines(spec: TableSpec, pooled: list[Effect]) -> Iterator[str]:
    """Yield what the choices of a table come to, line by line."""
    yield f"{spec.table}: {effects.sentence(spec, pooled)}"
    width = max((len(effect.label) for effect in pooled), default=0)
    for effect in pooled:
        difference, p, corrected, verdict = effect.texts
        yield f"  {effect.label:{width}}  {difference:22}  p {p:6}  Holm {corrected:6}  {verdict}"


def _plain(effect: Effect) -> dict[str, Any]:
    return {**asdict(effect), "verdict": effect.verdict}
