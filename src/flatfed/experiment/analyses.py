"""How analyses of finished runs are made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flatfed.data import keys
from flatfed.errors import ConfigError
from flatfed.experiment.catalog import Catalog
from flatfed.runs.run import Run

#: Kind of analysis -> its settings where a protocol's ``analysis:`` says nothing, by scale.
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
    values = catalog.values(scale, protocol)
    return {**DEFAULTS[kind][scale], **values.get("analysis", {}).get(kind, {})}


def options(catalog: Catalog, kind: str, scale: str, protocol: str, **own: Any) -> list[str]:
    """Return these settings, and the ``own`` in their place, as options of the command, words of a shell each."""
    found = {**settings(catalog, kind, scale, protocol), **own}
    return [word for name, value in found.items() for word in (f"--{name}", str(value))]


def hold_images(catalog: Catalog, compared: Iterable[tuple[str, Run]], chosen: str | None, where: str) -> None:
    """Refuse surfaces that are to be compared and would be of different images.

    ``compared``: the title of its panel with each run. Those of one panel, or of one protocol, are compared; ``chosen``
    is the set that the figure names. A draw of some of the training images is another one in every deal.

    :raises ConfigError: two of them have different deals.
    """
    firsts: dict[str, tuple[Run, Any]] = {}
    for panel, run in compared:
        asked = settings(catalog, "surface", run.scale, run.protocol)
        dealt = catalog.deal(run.scale, run.protocol, run.split)
        if (chosen or asked["set"]) != "train" or asked["images"] >= dealt.images:
            continue
        spec = {"seed": run.seed, **dealt.partition}
        deal = keys.pooled(spec) if "images_of" in spec else spec
        for group in (f"panel {panel}", run.protocol.partition("~")[0]):
            first, theirs = firsts.setdefault(group, (run, deal))
            if deal != theirs:
                raise ConfigError(
                    f"{where}: surfaces of {first.split} seed {first.seed} and {run.split} seed {run.seed} are "
                    "compared, but their training images are other ones; `set: test` takes images that all splits have"
                )
