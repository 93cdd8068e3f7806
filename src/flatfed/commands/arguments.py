"""Arguments of sub-commands: their parser, functions that declare them, readers of their values, and shared ones.

The readers have messages for wrong values.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from flatfed import gpus
from flatfed.config.values import LAST_SEED, Count, Natural
from flatfed.errors import DataError, suggestion
from flatfed.files import check_place
from flatfed.runs import record as records
from flatfed.runs.paths import SCALES
from flatfed.runs.run_config import RunConfig


class Parser(argparse.ArgumentParser):
    """A parser that suggests the nearest choice, and accepts several values after --config as Snakemake does.

    A sub-command refuses its own unknown arguments, with its usage.
    """

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        words: list[str] = []
        for word in sys.argv[1:] if args is None else args:
            continues = len(words) > 1 and words[-2] == "--config" and _is_setting(word)
            words += ["--config", word] if continues else [word]
        namespace, unknown = super().parse_known_args(words, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return namespace, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            kind = "command" if isinstance(action, argparse._SubParsersAction) else "value"
            raise argparse.ArgumentError(action, f"unknown {kind} {value!r}; {suggestion(value, action.choices)}")


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


def json_or_file(text: str) -> dict[str, Any]:
    """Read a JSON object from ``text`` or from the file of that name."""
    try:
        value = json.loads(text if text.lstrip().startswith("{") else Path(text).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"{text[:80]!r}: neither JSON nor a readable JSON file: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text}: expected a JSON object, not {type(value).__name__}")
    return value


def _of_type(kind: Any, words: str) -> Callable[[str], Any]:
    """Return the reader of a value of a type ``kind`` of pydantic."""
    adapter = TypeAdapter(kind)

    def read(text: str) -> Any:
        try:
            return adapter.validate_strings(text)
        except ValidationError:
            raise argparse.ArgumentTypeError(f"{text!r}: expected {words}") from None

    return read


count = _of_type(Count, "a whole number above 0")
several = _of_type(Annotated[Count, Field(ge=2)], "a whole number above 1")
seed = _of_type(Annotated[Natural, Field(le=LAST_SEED)], f"a whole number from 0 to {LAST_SEED}")
share = _of_type(Annotated[float, Field(ge=0, le=1)], "a number from 0 to 1")


def images(text: str) -> int | None:
    """Read a number of images, None for ``all``."""
    return None if text == "all" else count(text)


def _path(text: str, *suffixes: str, of_folder: bool = False) -> Path:
    """Read the path of a file, with one of ``suffixes`` if there are any, or of a folder. It need not exist."""
    try:
        check_place(text, folder=of_folder)
    except (DataError, OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{text[:80]!r}: {str(error)[:300]}") from None
    if suffixes and Path(text).suffix not in suffixes:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a file that ends in {' or '.join(suffixes)}")
    return Path(text)


file, folder = _path, functools.partial(_path, of_folder=True)


def ending(*suffixes: str) -> Callable[[str], Path]:
    """Return the reader of a file path with one of ``suffixes``."""
    return lambda text: _path(text, *suffixes)


def value(text: str) -> str:
    """Read KEY=VALUE."""
    if not is_value(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return text


def setting(text: str) -> str:
    """Read KEY=VALUE or the path of a YAML file."""
    if not _is_setting(text) and not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"{text!r} is neither KEY=VALUE nor a YAML file")
    return text


def is_value(text: str) -> bool:
    """Return whether ``text`` is KEY=VALUE."""
    key, equals, _ = text.partition("=")
    return bool(equals) and key.isidentifier()


def _is_setting(text: str) -> bool:
    return is_value(text) or Path(text).suffix in (".yaml", ".yml")


RUN = required("--run", json_or_file, "settings of a run, from `describe`: JSON or a JSON file")
DATASET = required("--dataset", folder, "dataset folder from `fetch`")
PARTITION = required("--partition", file, "the run's partition file from `partition`", metavar="NPZ")
OUT = required("--out", file, "file to write")
OUT_FOLDER = required("--out", folder, "folder to write")
SCALE = argument("--scale", SCALES, "the scale (default: the configuration's)")
CONFIG = argument(
    "--config", setting, "configuration file, or values that override it", action="append", metavar="FILE|K=V"
)
#: The options of jobs that read the configuration.
JOB = [SCALE, CONFIG]
TABLES = [argument("tables", str, "tables (default: those of config.yaml)", nargs="*", metavar="TABLE"), SCALE, CONFIG]
#: The workflow writes the option without a file for runs without pre-trained weights.
WEIGHTS = argument("--weights", file, "the run's pre-trained weights, a state dict", nargs="?")
DEVICE = [
    argument("--device", ("auto", "cpu", "cuda"), "auto: GPU if available", default="auto"),
    argument("--threads", count, "CPU threads of torch", default=1),
]
#: Of commands that analyse the model of a finished run.
ANALYSIS = [argument("run", folder, "a finished run", metavar="RUN_FOLDER"), DATASET, PARTITION, *DEVICE]


def run_config(value: dict[str, Any]) -> RunConfig:
    """Return the value of :data:`RUN` as settings; its DataError also says how to print complete ones."""
    try:
        return RunConfig.of_json(value, "--run")
    except DataError as error:
        raise DataError(f"{error}. `flatfed describe RUN_FOLDER` prints complete settings") from None


@contextlib.contextmanager
def analysis_inputs(options: argparse.Namespace) -> Iterator[Any]:
    """Check run and device of :data:`ANALYSIS`, then import torch; yield the inputs, with a GPU reserved meanwhile."""
    device = gpus.demanded(options.device)
    records.read_finished(options.run)
    with gpus.claimed() if device == "cuda" else contextlib.nullcontext():
        from flatfed.analysis.trained_model import AnalysisInputs

        yield AnalysisInputs(options.dataset, options.partition, device, options.threads)
