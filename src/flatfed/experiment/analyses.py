"""Analyses of finished runs: where they lie, and how they are made."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flatfed.data import keys
from flatfed.errors import ConfigError

if TYPE_CHECKING:
    from flatfed.experiment.experiment import Experiment
    from flatfed.experiment.model import Run

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


def folder(run: Run, results: str) -> str:
    """Return the folder of the analyses of ``run``."""
    return f"{results}/{run.scale}/analysis/{run.protocol}/{run.split}/{run.algorithm}/seed{run.seed}"


def surface_path(run: Run, results: str, images: str | None = None, other: Run | None = None) -> str:
    """Return the path of the loss surface of ``run``, or of it and ``other`` in one frame, scaled to its filters.

    ``images``: the set that it is evaluated on, where that is not left to the protocol's ``analysis:``.
    """
    beside = f"+{other.split}+{other.algorithm}" if other else ""
    return f"{folder(run, results)}/surface{f'.{images}' if images else ''}{beside}.npz"


def line_path(run: Run, results: str, other: Run) -> str:
    """Return the path of the losses on the way from the model of ``run`` to that of ``other``."""
    return f"{folder(run, results)}/line+{other.split}+{other.algorithm}.npz"


def hessian_path(run: Run, results: str) -> str:
    """Return the path of the Hessian's estimates at the model of ``run``."""
    return f"{folder(run, results)}/hessian.json"


def models_of(path: str) -> list[str]:
    """Return the run folders whose models the analysis in ``path`` is of; none where it is no analysis of a run.

    A file of two models in one frame names the other one's split and algorithm behind its own.
    """
    file = Path(path)
    if "/analysis/" not in path or not file.parent.name.startswith("seed"):
        return []
    folder = str(file.parent).replace("/analysis/", "/runs/", 1)
    found = [folder]
    for split, algorithm in re.findall(r"\+([^+]+)\+([^+]+)", file.stem):
        protocol, seed = Path(folder).parents[2], file.parent.name
        found.append(f"{protocol}/{split}/{algorithm}/{seed}")
    return found


def settings(experiment: Experiment, kind: str, scale: str, protocol: str) -> dict[str, Any]:
    """Return the settings of analysis ``kind`` in ``protocol`` at ``scale``.

    A "line" has those of the surface but for its range, which is in filter norms.
    """
    if kind == "line":
        return {k: v for k, v in settings(experiment, "surface", scale, protocol).items() if k != "range"}
    values = experiment.catalog.protocols[protocol].scales[scale]
    return {**DEFAULTS[kind][scale], **values.get("analysis", {}).get(kind, {})}


def options(experiment: Experiment, kind: str, scale: str, protocol: str, **own: Any) -> list[str]:
    """Return these settings, and the ``own`` in their place, as options of the command, words of a shell each."""
    found = {**settings(experiment, kind, scale, protocol), **own}
    return [word for name, value in found.items() for word in (f"--{name}", str(value))]


def hold_images(experiment: Experiment, compared: Iterable[tuple[str, Run]], chosen: str | None, where: str) -> None:
    """Refuse surfaces that are to be compared and would be of different images.

    ``compared``: the title of its panel with each run. Those of one panel, or of one protocol, are compared; ``chosen``
    is the set that the figure names. A draw of some of the training images is another one in every deal.

    :raises ConfigError: two of them have different deals.
    """
    firsts: dict[str, tuple[Run, Any]] = {}
    for panel, run in compared:
        asked = settings(experiment, "surface", run.scale, run.protocol)
        images = experiment.catalog.datasets[experiment.dataset_of(run.scale, run.protocol)]["train"]
        if (chosen or asked["set"]) != "train" or asked["images"] >= images:
            continue
        spec = experiment.partition_spec(run.scale, run.protocol, run.split, run.seed)
        deal = keys.pooled(spec) if "images_of" in spec else spec
        for group in (f"panel {panel}", run.protocol.partition("~")[0]):
            first, theirs = firsts.setdefault(group, (run, deal))
            if deal != theirs:
                raise ConfigError(
                    f"{where}: surfaces of {first.split} seed {first.seed} and {run.split} seed {run.seed} are "
                    "compared, but their training images are other ones; `set: test` takes images that all splits have"
                )
