"""What Snakemake passes to ``cell``, ``table``, ``figure``, ``report`` and ``choose``, read for calls by hand, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from flatfed.errors import DataError

Spec = TypeVar("Spec")


def checked(spec: dict[str, Any], command: str, read: Callable[[Any, str], Spec]) -> Spec:
    """Return ``spec``, JSON that ``command`` takes, as ``read`` makes an object of it.

    :raises DataError: a key is missing, or its value of another kind.
    """
    try:
        return read(spec, "--spec")
    except DataError as error:
        wanted = f"`snakemake -n -p --forcerun {command}` prints calls with whole specifications"
        raise DataError(f"{error}. {wanted}") from None
