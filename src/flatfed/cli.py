"""The command line: one sub-command for each step of the workflow. A call imports only its sub-command."""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from collections.abc import Iterable, Sequence
from types import ModuleType

from flatfed import __version__
from flatfed.commands import CALLED_BY_SNAKEMAKE, COMMANDS, FOR_YOU
from flatfed.commands.arguments import Parser
from flatfed.engine.job.interruption import Stopped
from flatfed.errors import REMEDIES, WITHOUT_A_NAME, FlatFedError, os_error_message

#: Exit statuses.
REFUSED, INTERRUPTED = 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one sub-command and return its exit status."""
    if arguments is None:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `flatfed ... | head` ends silently
    words = sys.argv[1:] if arguments is None else list(arguments)
    words = [*words[1:2], "--help"] if words[:1] == ["help"] else words
    command = next((word for word in words[:1] if word in COMMANDS), None)
    prefix = "flatfed" if command is None else f"flatfed {command}"
    try:
        options = parser([] if command is None else [command]).parse_args(words)
        from flatfed import algorithms, models

        for files in (algorithms.FILES, models.FILES):
            files.look_in_environment()
        return _file(options.command).run(options) or 0
    except FlatFedError as error:
        print(f"{prefix}: {error}", file=sys.stderr)
        return REFUSED
    except Stopped as stopped:
        return stopped.status
    except (MemoryError, OSError) as error:
        text = _remedy(error)
        if text is None:
            raise
        print(f"{prefix}: {text}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        print(f"{prefix}: interrupted", file=sys.stderr)
        return INTERRUPTED


def parser(commands: Iterable[str] = COMMANDS) -> argparse.ArgumentParser:
    """Return the parser with all command names and the arguments of ``commands``."""
    top = Parser(
        prog="flatfed",
        usage="flatfed COMMAND ...",
        description=f"for you:\n{_listed(FOR_YOU)}\n\ncalled by Snakemake:\n{_listed(CALLED_BY_SNAKEMAKE)}",
        epilog="`flatfed help COMMAND` explains a command and shows an example.\n"
        "Without installation: `PYTHONPATH=src python -m flatfed COMMAND`.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"flatfed {__version__}")
    subs = top.add_subparsers(dest="command", metavar="COMMAND", required=True, prog="flatfed", help=argparse.SUPPRESS)
    for name, (_, purpose) in COMMANDS.items():
        sub = subs.add_parser(name, formatter_class=argparse.RawDescriptionHelpFormatter)
        if name in commands:
            command = _file(name)
            detail = (command.__doc__ or "").partition("\n\n")[2]  # none with `python -OO`
            sub.description = f"{purpose[0].upper()}{purpose[1:]}.\n\n{detail}"
            for argument, keywords in command.ARGUMENTS:
                sub.add_argument(argument, **keywords)
    return top


def _listed(commands: dict[str, tuple[str, str]]) -> str:
    return "\n".join(f"  {name:9}  {purpose}" for name, (_, purpose) in commands.items())


def _file(command: str) -> ModuleType:
    return importlib.import_module(f"flatfed.commands.{COMMANDS[command][0]}")


def _remedy(error: MemoryError | OSError) -> str | None:
    """Return the message for a problem of disk, file or memory, else None."""
    if isinstance(error, MemoryError):
        return f"not enough memory ({str(error) or type(error).__name__})"
    named = error.filename is not None or error.errno in WITHOUT_A_NAME
    return os_error_message(error) if named and error.errno in REMEDIES else None
