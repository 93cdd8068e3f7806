"""Call: python -m pytest FOLDER"""

from pathlib import Path

from flatfed import algorithms
from flatfed.engine.checks import contract


def test_my_method_keeps_the_contract():
    algorithms.FILES.look_in([Path(__file__).parent], "this test")
    assert any("interruption" in sentence for sentence in contract.check("my_method"))
