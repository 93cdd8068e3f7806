"""The description of a run as a training takes it, checked before anything is made of it.

``describe`` prints whole ones. One that was written by hand, or cut on its way to another machine, may lack anything.
The names in it (algorithm, model, executor) are checked where they are looked up.
"""

from __future__ import annotations

from typing import Any

from flatfed import forms
from flatfed.errors import DataError
from flatfed.forms import Above, Named, Some, Whole
from flatfed.runs import graphs

NUMBERS, SHARE = [float], Above(0, most=1)

#: What a round may be evaluated on; "validation" is what ``validation`` of the training images are held out for.
SETS = ("test", "train", "clients", "nodes", "validation")

#: The form of a description (:mod:`flatfed.forms`).
FORM = {
    **dict.fromkeys(("scale", "protocol", "split", "algorithm"), str),
    "seed": Whole(0),
    "dataset": {"name": str, "classes": Whole(1), "shape": Some(Whole(1)), "mean": NUMBERS, "std": NUMBERS},
    "partition": {"scheme": str, "clients": Whole(1)},
    "sampling": {
        "scheme": Named("scheme", ("all", "bernoulli", "fixed")),
        "fraction?": SHARE,
        "sampler?": Named("sampler", ("keyed", "official")),
    },
    "topology?": {"graph": Named("topology", tuple(graphs.GRAPHS)), "neighbours?": Whole(1)},
    "local_steps?": Whole(1),
    "model": {"name": str, "options": dict, "weights?": str},
    **dict.fromkeys(("rounds", "batch_size", "local_epochs", "checkpoint_every"), Whole(1)),
    **dict.fromkeys(("learning_rate", "learning_rate_decay", "weight_decay"), float),
    "clip_norm": (float, None),
    "augmentation": Named("augmentation", ("none", "crop_flip_half")),
    "precision": Named("precision", ("float32", "float64", "bfloat16")),
    "update": {"name": str, "params": dict},
    "evaluation": {"every": Whole(1), "sets": [Named("set", SETS)], "batch_size": Whole(1)},
    "probe?": {"every": Whole(1), "images": Whole(1), "rho": float, "m": Whole(1)},
    "validation?": SHARE,
    "executor": {"cpu": str, "cuda": str},
    "emulate_bfloat16?": bool,
}


def check(description: dict[str, Any], where: str) -> None:
    """Refuse a ``description`` that is incomplete or of another form; messages begin with ``where``.

    :raises DataError: a key is missing, or its value of another kind.
    """
    forms.check(description, FORM, where)
    if ("validation" in description["evaluation"]["sets"]) != ("validation" in description):
        raise DataError(
            f"{where}: evaluation.sets has 'validation' exactly where `validation` says how large a part of the "
            "training images is held out"
        )
    data = description["dataset"]
    wanted = {"shape": 3, "mean": data["shape"][0], "std": data["shape"][0]}
    for key, count in wanted.items():
        if len(data[key]) != count:
            what = "channels, height and width are wanted" if key == "shape" else f"one for each of {count} channels"
            raise DataError(f"{where}: dataset.{key}: {len(data[key])} numbers; {what}")


def check_given(description: dict[str, Any], where: str) -> None:
    """Refuse a ``description`` that a person gave as :func:`check` does, and say where to see a whole one."""
    try:
        check(description, where)
    except DataError as error:
        raise DataError(f"{error}. `python -m flatfed describe RUN_FOLDER` prints whole descriptions") from None
