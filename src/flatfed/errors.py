"""Errors meant for the user: one message that names the place, the value and what is allowed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class FlatFedError(Exception):
    """A problem the user can mend. The command line prints the message alone, without a trace."""


class ConfigError(FlatFedError):
    """A problem in the configuration: a file, a key, a value."""


class DataError(FlatFedError):
    """A problem with a dataset, a partition, or a file of results."""


def unknown(kind: str, value: object, known: Iterable[object], where: str) -> str:
    """Return the message for a name that does not exist, with the nearest one that does.

    >>> unknown("algorithm", "fedsmo", ["fedavg", "fedsmoo"], "config/tables/x.yaml: rows[1]")
    "config/tables/x.yaml: rows[1]: unknown algorithm 'fedsmo'; did you mean 'fedsmoo'? known: fedavg, fedsmoo"
    """
    names = sorted(str(name) for name in known)
    near = difflib.get_close_matches(str(value), names, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else ";"
    return f"{where}: unknown {kind} {value!r}{hint} known: {', '.join(names) or 'none'}"
