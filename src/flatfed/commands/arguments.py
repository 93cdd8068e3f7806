"""Arguments of sub-commands: functions that declare them, and arguments that several sub-commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flatfed.commands import kinds
from flatfed.errors import DataError
from flatfed.runs.paths import SCALES
from flatfed.runs.run_config import RunConfig

#: Name and keywords for ``add_argument``.
Argument = tuple[str, dict[str, Any]]


def argument(name: str, kind: Callable[[str], Any] | tuple[str, ...], meaning: str, /, **more: Any) -> Argument:
    """Return an argument with a value; ``kind``: its reader or its choices. Its help shows the ``default``."""
    of_kind = {"choices": kind} if isinstance(kind, tuple) else {"type": kind}
    default = f" (default: {more['default']})" if more.get("default") is not None else ""
    return name, {**of_kind, "help": f"{meaning}{default}", **more}


def required(name: str, kind: Callable[[str], Any], meaning: str, /, **more: Any) -> Argument:
    """Return a required option."""
    return argument(name, kind, meaning, required=True, **more)


def flag(name: str, meaning: str, **more: Any) -> Argument:
    """Return an option without a value."""
    return name, {"action": "store_true", "help": meaning, **more}


def ids(*kinds_of_ids: str) -> list[Argument]:
    """Return one argument per kind of id, such as table or column."""
    return [(kind, {"metavar": kind.upper(), "help": f"id of the {kind}"}) for kind in kinds_of_ids]


RUN = required("--run", kinds.json_or_file, "settings of a run, from `describe`: JSON or a JSON file")
DATASET = required("--dataset", kinds.folder, "dataset folder from `fetch`")
PARTITION = required("--partition", kinds.file, "the run's partition file from `partition`", metavar="NPZ")
OUT = required("--out", kinds.file, "file to write")
OUT_FOLDER = required("--out", kinds.folder, "folder to write")
SCALE = argument("--scale", SCALES, "the scale (default: the configuration's)")
CONFIG = argument(
    kinds.CONFIG, kinds.setting, "configuration file, or values that override it", action="append", metavar="FILE|K=V"
)
SEAL = argument("--seal", str, "also write a hidden file: digest of HEX and of the outputs", metavar="HEX")
#: The options of jobs that read the configuration.
JOB = [SCALE, CONFIG, argument("--digest", str, "digest of the requested content, from Snakemake", metavar="HEX")]
TABLES = [argument("tables", str, "tables (default: those of config.yaml)", nargs="*", metavar="TABLE"), SCALE, CONFIG]
#: The workflow writes the option without a file for runs without pre-trained weights.
WEIGHTS = argument("--weights", kinds.file, "the run's pre-trained weights from `weights`", nargs="?")
DEVICE = [
    argument("--device", ("auto", "cpu", "cuda"), "auto: GPU if available", default="auto"),
    argument("--threads", kinds.count, "CPU threads of torch", default=1),
]


def run_config(value: dict[str, Any]) -> RunConfig:
    """Return the value of :data:`RUN` as settings; its DataError also says how to print complete ones."""
    try:
        return RunConfig.of_json(value, "--run")
    except DataError as error:
        raise DataError(f"{error}. `python -m flatfed describe RUN_FOLDER` prints complete settings") from None
