"""Arguments of sub-commands, as argparse takes them, and those that several sub-commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flatfed.commands import kinds
from flatfed.runs.paths import SCALES

#: The name of an argument, and the keywords of ``add_argument``.
Argument = tuple[str, dict[str, Any]]


def argument(name: str, kind: Callable[[str], Any] | tuple[str, ...], meaning: str, /, **more: Any) -> Argument:
    """Return an argument with a value: ``kind`` reads it, or has its choices. Help ends with its ``default``."""
    of_kind = {"choices": kind} if isinstance(kind, tuple) else {"type": kind}
    default = f" (default: {more['default']})" if more.get("default") is not None else ""
    return name, {**of_kind, "help": f"{meaning}{default}", **more}


def required(name: str, kind: Callable[[str], Any], meaning: str, /, **more: Any) -> Argument:
    """Return an option that has to be given."""
    return argument(name, kind, meaning, required=True, **more)


def flag(name: str, meaning: str, **more: Any) -> Argument:
    """Return an option without a value."""
    return name, {"action": "store_true", "help": meaning, **more}


def ids(*kinds_of_ids: str) -> list[Argument]:
    """Return an id of each of these kinds: table, column, row, figure, protocol and so on."""
    return [(kind, {"metavar": kind.upper(), "help": f"id of the {kind}"}) for kind in kinds_of_ids]


DESCRIPTION = "the run description, as `describe` prints it: JSON, or a file of it"
DATASET = required("--dataset", kinds.folder, "folder that `fetch` made")
PARTITION = required("--partition", kinds.file, "file that `partition` made, the run's own", metavar="NPZ")
OUT = required("--out", kinds.file, "file to write")
OUT_FOLDER = required("--out", kinds.folder, "folder to write")
SCALE = argument("--scale", SCALES, "the scale (default: the configuration's)")
CONFIG = argument(
    kinds.CONFIG, kinds.setting, "the configuration, or values in place of its own", action="append", metavar="FILE|K=V"
)
#: The options of jobs that read the configuration.
JOB = [SCALE, CONFIG, argument("--digest", str, "digest of the content that Snakemake requested", metavar="HEX")]
#: Tables by their ids, see :func:`flatfed.commands.configuration.asked_tables`.
TABLES = [argument("tables", str, "tables (default: those of config.yaml)", nargs="*", metavar="TABLE"), SCALE, CONFIG]
#: The workflow writes it without a file where a run has no pre-trained weights.
WEIGHTS = argument("--weights", kinds.file, "the run's pre-trained weights, which `weights` made", nargs="?")
DEVICE = [
    argument("--device", ("auto", "cpu", "cuda"), "auto: a GPU if there is one", default="auto"),
    argument("--threads", kinds.count, "CPU threads of torch", default=1),
]
