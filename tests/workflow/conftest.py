"""One small project, trained once; every test that changes something works on a copy of it."""

import fcntl

import pytest
from project import COLUMN, PROTOCOL, ROWS, SPLIT, TABLE, Project

#: Files that begin, after Slurm's: long ones, with which no process should end, and those that need no trained project,
#: while another process makes it.
FIRST = ("test_docs.py", "test_short_gpu.py", "test_dry_run.py", "test_bad_input.py", "test_next_call.py")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: FIRST.index(item.path.name) if item.path.name in FIRST else len(FIRST))


def one_column(table):
    """Leave four rows of one column."""
    table.update(rows=ROWS, columns=[{**table["columns"][0], "splits": [SPLIT], "id": COLUMN}])


def two_rounds(protocol):
    """Two rounds at preview scale, and no mean over more of them."""
    protocol["preview"].update(rounds=2)
    protocol["preview"].setdefault("evaluation", {})["window"] = 1
    for variant in protocol.get("variants", {}).values():
        variant.get("preview", {}).get("evaluation", {}).pop("window", None)


@pytest.fixture(scope="session")
def trained(tmp_path_factory, worker_id):
    """A project whose one table is made: one column, four runs of two rounds, one seed, no figures.

    The first of the processes that test makes it, for all.
    """
    folder = tmp_path_factory.getbasetemp() if worker_id == "master" else tmp_path_factory.getbasetemp().parent
    project = Project(folder / "trained")
    with open(folder / "trained.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not project.root.exists():
            project = Project.copied(tmp_path_factory.mktemp("untrained"))
            script = "raise SystemExit('a script of the user, with the name of a module of Python')\n"
            (project.root / "numbers.py").write_text(script)
            settings = {"tables": [TABLE], "figures": [], "seeds": [1]}
            project.edit_yaml("config/config.yaml", lambda config: config.update(settings))
            project.edit_yaml(f"config/tables/{TABLE}.yaml", one_column)
            for file in sorted((project.root / PROTOCOL).parent.glob("*.yaml")):
                project.edit_yaml(file, two_rounds)
            project.make()
            (project.root / "numbers.py").unlink()
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
