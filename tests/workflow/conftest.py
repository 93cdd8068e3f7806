"""One small project, trained once; every test that changes something works on a copy of it."""

import pytest
from project import COLUMN, ROWS, TABLE, Project


def shrink(config):
    """One column of one table, one seed, no figures; all models stay."""
    config.update(tables=[{"table": TABLE, "columns": [COLUMN]}], figures=[], seeds=[1], keep_models="all")


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A project in which all that its configuration asks for has been made: one column, four runs of two rounds."""
    project = Project.copied(tmp_path_factory.mktemp("trained"))
    project.edit_yaml("config/config.yaml", shrink)
    project.edit_yaml(f"config/tables/{TABLE}.yaml", lambda table: table.update(rows=ROWS))
    for file in sorted((project.root / "config" / "protocols").glob("*.yaml")):
        project.edit_yaml(file, lambda protocol: protocol["preview"].update(rounds=2))
    project.make()
    return project


@pytest.fixture
def project(trained, tmp_path):
    """A copy of the trained project, to change at will."""
    return trained.clone(tmp_path / "project")


@pytest.fixture(scope="session")
def untouched(tmp_path_factory):
    """A copy of the project as it is, in which nothing has been made; for dry runs that change nothing."""
    return Project.copied(tmp_path_factory.mktemp("untouched"))
