"""Vectors that an algorithm's bases declare: joined along the inheritance, each once, and trained as declared."""

import pytest

from flatfed import algorithms
from flatfed.errors import ConfigError


def test_the_order_is_that_of_the_bases_and_every_name_is_there_once():
    feddyn = algorithms.load("feddyn")
    again = type("Again", (feddyn,), {"client_state": ("h", "mu"), "scratch": ("v",)})
    assert again.client_state == ("h", "mu") and again.server_state == ("h",) and again.scratch == ("pull", "v")
    plain = type("Plain", (), {"scratch": ("own",)})
    assert type("Mixed", (plain, feddyn), {}).scratch == ("pull", "own")


TWO = 'class One(Algorithm):\n    scratch = ("e",)\n\n\nclass Two(Algorithm):\n    scratch = ("e",)\n\n\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('class Odd(FedAvg):\n    scratch = "velocity"\n', "scratch is 'velocity'; expected: a tuple"),
        ('class Odd(FedAvg):\n    server_state = ("w",)\n', "server_state may not have 'w'"),
        ("class Odd(FedAvg):\n    @property\n    def scratch(self):\n        pass\n", "scratch is <property"),
        (f"{TWO}class Odd(One, Two):\n    pass\n", "scratch: One and Two both have a vector 'e'"),
        (f'{TWO}class Odd(One, Two):\n    scratch = ("e",)\n', None),  # the class says that they share it
    ],
    ids=["a string", "taken", "a property", "of two", "shared"],
)
def test_impossible_state_is_refused_when_the_file_is_loaded(outside, text, message):
    path = outside.write("odd", text)
    if message is None:
        assert algorithms.load("odd").scratch == ("e",)
    else:
        with pytest.raises(ConfigError, match=rf"^{path}: line \d+: algorithm Odd: {message}"):
            algorithms.load("odd")
