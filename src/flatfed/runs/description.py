"""The form of a run description. The code that looks up an algorithm, model or executor checks its name."""

from __future__ import annotations

from typing import Any

from flatfed import forms
from flatfed.errors import DataError
from flatfed.forms import SHAPE, above, named, whole
from flatfed.runs import graphs

NUMBERS, SHARE = list[float], above(0, most=1)

#: Evaluation sets; "validation" are the held-out training images of ``validation``.
SETS = ("test", "train", "clients", "nodes", "validation")

#: The form of a description (:mod:`flatfed.forms`).
FORM = {
    **dict.fromkeys(("scale", "protocol", "split", "algorithm"), str),
    "seed": whole(0),
    "dataset": {"name": str, "classes": whole(1), "shape": SHAPE, "mean": NUMBERS, "std": NUMBERS},
    "partition": {"scheme": str, "clients": whole(1)},
    "sampling": {
        "scheme": named("scheme", ("all", "bernoulli", "fixed")),
        "fraction?": SHARE,
        "sampler?": named("sampler", ("keyed", "official")),
    },
    "topology?": {"graph": named("topology", tuple(graphs.GRAPHS)), "neighbours?": whole(1)},
    "local_steps?": whole(1),
    "model": {"name": str, "options": dict, "weights?": str},
    **dict.fromkeys(("rounds", "batch_size", "local_epochs", "checkpoint_every"), whole(1)),
    **dict.fromkeys(("learning_rate", "learning_rate_decay", "weight_decay"), float),
    "clip_norm": float | None,
    "augmentation": named("augmentation", ("none", "crop_flip_half")),
    "precision": named("precision", ("float32", "float64", "bfloat16")),
    "update": {"name": str, "params": dict},
    "evaluation": {"every": whole(1), "sets": list[named("set", SETS)], "batch_size": whole(1)},
    "probe?": {"every": whole(1), "images": whole(1), "rho": float, "m": whole(1)},
    "validation?": SHARE,
    "executor": {"cpu": str, "cuda": str},
    "emulate_bfloat16?": bool,
}


def check(description: dict[str, Any], where: str) -> None:
    """Raise DataError, which begins with ``where``, for a missing key or a value that is not allowed."""
    forms.check(description, FORM, where)
    if ("validation" in description["evaluation"]["sets"]) != ("validation" in description):
        raise DataError(f"{where}: evaluation.sets needs 'validation' if, and only if, `validation` is a share")
    data = description["dataset"]
    for key in ("mean", "std"):
        if len(data[key]) != data["shape"][0]:
            raise DataError(f"{where}: dataset.{key}: {len(data[key])} numbers for {data['shape'][0]} channels")


def check_from_user(description: dict[str, Any], where: str) -> None:
    """Call :func:`check`; its error also says how to print a complete description."""
    try:
        check(description, where)
    except DataError as error:
        raise DataError(f"{error}. `python -m flatfed describe RUN_FOLDER` prints complete descriptions") from None
