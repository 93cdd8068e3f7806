"""One small project, trained once; every test that changes something works on a copy of it."""

import fcntl

import pytest
from project import COLUMN, ROWS, TABLE, Project


def shrink(config):
    """One column of one table, one seed, no figures; all models stay."""
    config.update(tables=[{"table": TABLE, "columns": [COLUMN]}], figures=[], seeds=[1], keep_models="all")


def two_rounds(protocol):
    """Two rounds at preview scale, and no mean over more of them."""
    protocol["preview"].update(rounds=2)
    protocol["preview"].setdefault("evaluation", {})["window"] = 1
    for variant in protocol.get("variants", {}).values():
        variant.get("preview", {}).get("evaluation", {}).pop("window", None)


@pytest.fixture(scope="session")
def trained(tmp_path_factory, worker_id):
    """A project in which all that its configuration asks for has been made: one column, four runs of two rounds.

    The first of the processes that test makes it, for all.
    """
    folder = tmp_path_factory.getbasetemp() if worker_id == "master" else tmp_path_factory.getbasetemp().parent
    project = Project(folder / "trained")
    with open(folder / "trained.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not project.root.exists():
            project = Project.copied(tmp_path_factory.mktemp("untrained"))
            project.edit_yaml("config/config.yaml", shrink)
            project.edit_yaml(f"config/tables/{TABLE}.yaml", lambda table: table.update(rows=ROWS))
            for file in sorted((project.root / "config" / "protocols").glob("*.yaml")):
                project.edit_yaml(file, two_rounds)
            project.make()
            project.root = project.root.rename(folder / "trained")
    return project


@pytest.fixture
def project(trained, tmp_path):
    """A copy of the trained project, to change at will."""
    return trained.clone(tmp_path / "project")


@pytest.fixture(scope="session")
def untouched(tmp_path_factory):
    """A copy of the project as it is, in which nothing has been made; for dry runs that change nothing."""
    return Project.copied(tmp_path_factory.mktemp("untouched"))
