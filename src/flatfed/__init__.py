"""FlatFed reproduces the tables and figures of four papers on sharpness-aware federated learning.

For notebooks: :func:`numbers` and :func:`curves` return the results as pandas frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from flatfed.plan.at_scale import ShownTable

__all__ = ["__version__", "curves", "numbers"]
__version__ = "0.1.0"


def numbers(table: str, scale: str | None = None, *config: str) -> pd.DataFrame:
    """Return the numbers of a table, one row per cell and seed; docs/questions.md lists the columns.

    The columns of the table are those of config.yaml.

    ``scale``: "preview" or "paper", else that of config.yaml. ``config``: as after ``--config`` of commands, such as
    "folders=[mine]".

    :raises ConfigError: an id is unknown.
    :raises DataError: a run is damaged or of other settings.
    """
    from flatfed.tables import cells, measurement

    filled = cells.fill(_shown(table, scale, config))
    return measurement.frame(number for cell in filled.cells for number in cell.measured)


def curves(table: str, scale: str | None = None, *config: str) -> pd.DataFrame:
    """Return the lines of metrics.csv of a table's finished runs, after columns with the ids of each run.

    The columns of the table are those of config.yaml. Parameters as of :func:`numbers`.

    :raises ConfigError: an id is unknown.
    :raises DataError: this folder has no finished run of the table, or a run is damaged or of other settings.
    """
    from pathlib import Path

    import pandas as pd

    from flatfed.errors import DataError
    from flatfed.plan.number import runs_of
    from flatfed.tables.readings import read_history

    parts, shown = [], _shown(table, scale, config)
    for run in runs_of(shown.numbers).values():
        if record := run.read_record():
            lines = read_history(Path(run.path), record, ()).reset_index()
            parts.append(pd.DataFrame(vars(run.ids), lines.index).join(lines))
    if not parts:
        raise DataError(f"{table}: {Path.cwd()} has no finished run of it at {shown.scale} scale")
    return pd.concat(parts, ignore_index=True)


def _shown(table: str, scale: str | None, config: Sequence[str]) -> ShownTable:
    """Return a table with the columns of config.yaml."""
    from flatfed.commands import configuration
    from flatfed.plan import at_scale

    experiment = configuration.load(config)
    columns = experiment.requested.tables.get(table)
    return at_scale.table(experiment, scale or experiment.scale_of([table]), table, columns)
