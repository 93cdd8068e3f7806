"""The parameter ``digest`` of a table's rule changes with each text of config/ that the table prints."""

import pytest

import made
from flatfed import plan
from flatfed.commands.jobs import Jobs

TABLE = {"scale": "paper", "table": "fedsmoo2023_T6"}


def digest(root, file, change) -> str:
    """Return the digest of the job with a changed file of config/."""
    made.edited(made.small(root, "errata"), file, change)
    experiment = plan.load(root, {"scale": "paper", "tables": [TABLE["table"]], "figures": []})
    return Jobs(experiment).digest("table", **TABLE)


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    return digest(tmp_path_factory.mktemp("same"), "config.yaml", lambda document: None)


def changed(*keys):
    """Return a change of the text at ``keys`` of a document."""

    def change(document):
        *outer, last = keys
        for key in outer:
            document = document[key]
        document[last] = "another text"

    return change


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("tables/fedsmoo2023_T6.yaml", changed("title")),
        ("errata.yaml", changed("B14", "says")),
        ("algorithms.yaml", changed("fedsmoo", "label")),
        ("datasets.yaml", changed("cifar10", "label")),
    ],
)
def test_a_changed_text_changes_the_digest(before, tmp_path, file, change):
    assert digest(tmp_path, file, change) != before


def test_a_text_of_another_table_does_not(before, tmp_path):
    assert digest(tmp_path, "tables/fedsmoo2023_T1.yaml", changed("title")) == before
