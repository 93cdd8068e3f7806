"""Fixtures of the rounds by hand ."""

import pytest
from quadratic import after
from test_by_hand_server import problem, same


@pytest.fixture(params=["sequential", "stacked"])
def executor(request):
    return request.param


@pytest.fixture
def check(executor):
    """Yield a function that compares algorithm ``name`` after two rounds with the model ``expected``."""

    def check(expected, name, **params):
        declared = {key: value for key, value in params.items() if value is not None}
        same(after(2, problem(name, executor, declared)), expected)

    return check
