"""The settings of analyses of finished runs."""

from __future__ import annotations

from typing import Any

from flatfed.experiment.catalog import Catalog

#: Kind of analysis -> scale -> default settings, which a protocol's ``analysis:`` overrides.
DEFAULTS: dict[str, dict[str, dict[str, Any]]] = {
    "surface": {
        "paper": {"grid": 51, "range": 1.0, "set": "train", "images": 4096},
        "preview": {"grid": 21, "range": 1.0, "set": "train", "images": 500},
    },
    "hessian": {
        "paper": {"images": 4096, "top": 5, "vectors": 256},
        "preview": {"images": 500, "top": 2, "vectors": 64},
    },
}


def settings(catalog: Catalog, kind: str, scale: str, protocol: str) -> dict[str, Any]:
    """Return the settings of analysis ``kind`` in ``protocol`` at ``scale``."""
    analysis = catalog.settings(scale, protocol).analysis
    own = getattr(analysis, kind, None)
    return {**DEFAULTS[kind][scale], **(own.as_written() if own else {})}


def options(catalog: Catalog, kind: str, scale: str, protocol: str, **overrides: Any) -> list[str]:
    """Return the settings with ``overrides`` as command-line options."""
    values = {**settings(catalog, kind, scale, protocol), **overrides}
    return [word for name, value in values.items() for word in (f"--{name}", str(value))]
