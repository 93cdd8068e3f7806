"""What no training can do is refused in its description, and not found out in the middle of it."""

from __future__ import annotations

import pytest

from flatfed.errors import DataError
from flatfed.experiment import run_specs
from flatfed.runs import description
from shipped import EXP

ABOUT = run_specs.run(EXP, "preview", "fedsmoo-cifar10", "dir0.6-100", "fedavg", 1).description


def on(*sets: str) -> dict:
    return {"evaluation": {**ABOUT["evaluation"], "sets": list(sets)}}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (on("test", "client"), "did you mean 'clients'?"),
        (on("validation"), "evaluation.sets needs 'validation' if, and only if, "),
        ({**on("test"), "validation": 0.2}, "evaluation.sets needs 'validation' if, and only if, "),
        ({"sampling": {**ABOUT["sampling"], "sampler": "offical"}}, "did you mean 'official'?"),
    ],
)
def test_a_description_that_cannot_be_trained_is_refused(change, said):
    description.check(ABOUT, "--run")
    with pytest.raises(DataError) as refused:
        description.check({**ABOUT, **change}, "--run")
    assert str(refused.value).startswith("--run") and said in str(refused.value)


def test_a_part_that_is_held_out_is_evaluated():
    description.check({**ABOUT, **on("validation"), "validation": 0.2}, "--run")
