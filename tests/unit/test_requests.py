"""What trainings ask a cluster for: a plan's numbers with a margin, wide guesses without one."""

import json
from types import SimpleNamespace

import pytest

from flatfed.errors import ConfigError
from flatfed.workflow import requests

RUN = SimpleNamespace(scale="paper", protocol="p")


def planned(tmp_path, **request):
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"scale": "paper", "requests": {"p": request}, "plan": {}}))
    return requests.read(str(file))


def test_a_plan_with_a_margin_and_more_for_another_attempt(tmp_path):
    known = planned(tmp_path, minutes=101.0, memory_bytes=10_000_000_000)
    assert requests.for_runs([RUN], known, 1) == (152, 15_000)
    assert requests.for_runs([RUN], known, 2) == requests.for_runs([RUN], known, 5) == (304, 30_000)


def test_runs_that_train_together_ask_for_as_much_as_one_after_the_other(tmp_path):
    known = planned(tmp_path, minutes=101.0, memory_bytes=10_000_000_000)
    assert requests.for_runs([RUN, RUN], known, 1) == (304, 30_000)


def test_a_short_run_asks_for_what_starting_takes(tmp_path):
    assert requests.for_runs([RUN], planned(tmp_path, minutes=0.2, memory_bytes=0), 1) == requests.LEAST


def test_guesses_where_the_plan_does_not_know(tmp_path):
    other = SimpleNamespace(scale="paper", protocol="q")
    assert requests.for_runs([other], planned(tmp_path, minutes=1, memory_bytes=1), 1) == requests.GUESSES["paper"]
    assert requests.for_runs([SimpleNamespace(scale="preview", protocol="p")], requests.read(None), 2) == (20, 8000)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"scale": "paper"}', '{"scale": "paper", "requests": {"p": {"minutes": 1}}}']
)
def test_what_is_no_plan_is_refused(tmp_path, text):
    file = tmp_path / "plan.json"
    file.write_text(text)
    writes = r"`python -m flatfed plan --all --json FILE` writes one"
    with pytest.raises(ConfigError, match=rf"plan \(.*, or --config\): .*plan\.json: not a plan \(.*{writes}"):
        requests.read(str(file))
    with pytest.raises(ConfigError, match=r"absent\.json: no such file or directory"):
        requests.read(str(tmp_path / "absent.json"))
