"""``flatfed specify``: what the report holds, as a file: with every table it is longer than a shell takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flatfed import experiment
from flatfed.commands.configuration import HOME
from flatfed.files import write_json
from flatfed.runs.places import Places


def specify(configuration: dict[str, Any], scale: str, results: str, resources: str, out: Path) -> None:
    """Write what ``flatfed report`` takes to ``out``, whole; ``configuration`` is config.yaml's content as merged.

    :raises ConfigError: the configuration is wrong.
    """
    write_json(out, experiment.load(HOME, configuration, Places(results, resources)).report_spec(scale))
