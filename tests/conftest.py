"""What every test may use."""

import contextlib
import gc
import os
import shutil
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

#: Texts of tables, figures and reports. golden.json next to it holds numbers of algorithms.
GOLDEN_OUTPUT = Path(__file__).parent / "golden_output"

# Two tests at a time on two cores: more threads each would only get in each other's way.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")


# In the background, and under nohup, the tests and all processes that they start would ignore these signals.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items):
    """Begin with Slurm's tests, which mostly wait, and long files; skip tests marked ``gpu`` if there is none."""
    from flatfed.gpus import visible

    # Each run collects garbage before its first round; to search all imported modules would double a short run's time.
    gc.collect()
    gc.freeze()
    early = {"workflow"}
    items.sort(key=lambda item: (item.path.name != "test_slurm.py", item.path.parent.name not in early))
    if visible():
        return
    skip = pytest.mark.skip(reason="no GPU visible on this machine")
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(skip)


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="write the files of tests/golden_output anew")


@pytest.fixture(autouse=True)
def users_files(monkeypatch):
    """Forget the folders and modules of a user that a test added."""
    from flatfed import algorithms, models

    for package in (algorithms, models):
        monkeypatch.setattr(package, "__path__", list(package.__path__))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        parent, _, last = name.rpartition(".")
        package = sys.modules.get(parent)
        if package in (algorithms, models) and Path(sys.modules[name].__file__).parent != Path(package.__file__).parent:
            del sys.modules[name]
            vars(package).pop(last, None)


@pytest.fixture
def call(capsys):
    """Yield a function that calls a command in this process; it returns (exit status, stdout, stderr)."""
    from flatfed import cli

    def call(*words):
        capsys.readouterr()
        try:
            status = cli.main([str(word) for word in words])
        except SystemExit as end:
            status = end.code
        return (status, *capsys.readouterr())

    return call


@pytest.fixture
def golden_output(request):
    """Yield a function of (name, text) that compares a text with the file of that name in tests/golden_output."""

    def compare(name, text):
        path = GOLDEN_OUTPUT / name
        if request.config.getoption("update_golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        expected = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        assert text.splitlines() == expected, f"{path} differs: pytest --update-golden, then read the difference"

    return compare


#: First lines of the files that ``outside`` writes.
HEAD = """from flatfed.algorithms import Algorithm, Number, Whole
from flatfed.algorithms.dfedavg import DFedAvg
from flatfed.algorithms.fedavg import FedAvg


"""


@pytest.fixture
def outside(tmp_path):
    """Return a ``folder`` of a user's algorithms and its function ``write(name, text)``."""
    from flatfed import algorithms

    def write(name, text):
        path = folder / f"{name}.py"
        path.write_text(HEAD + text)
        return path

    folder = tmp_path / "mine"
    folder.mkdir()
    algorithms.look_in([folder], "a test")
    return SimpleNamespace(folder=folder, write=write)


@pytest.fixture(scope="session")
def small_config(tmp_path_factory):
    """Return a folder with a small configuration (:func:`made.small`)."""
    import made

    return made.small(tmp_path_factory.mktemp("config"))


@contextlib.contextmanager
def project_at(root):
    """Make ``root`` the current folder, and the one whose configuration commands read."""
    from flatfed.commands import configuration

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.setattr(configuration, "HOME", root)
        yield root


@pytest.fixture(scope="session")
def filled_project(tmp_path_factory):
    """Return the root of the small project (tests/small_project) with its results."""
    import small_results

    root = tmp_path_factory.mktemp("filled")
    small_results.clone(root)
    with project_at(root):
        small_results.fill()
    return root


@pytest.fixture(scope="module")
def small_project(filled_project, tmp_path_factory):
    """Yield the root of a copy of the small project with its results: the current folder of a module."""
    with project_at(shutil.copytree(filled_project, tmp_path_factory.mktemp("small"), dirs_exist_ok=True)) as root:
        yield root
