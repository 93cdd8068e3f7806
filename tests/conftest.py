"""What every test may use."""

import gc
import os
import signal

import pytest

# Two tests at a time on two cores: more threads each would only get in each other's way.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")


# A shell that starts the tests in the background has them ignore SIGINT, and so would every process that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Begin with Slurm's tests, which mostly wait, and long files; skip tests marked ``gpu`` if there is none."""
    from flatfed.gpus import visible

    # Each run collects garbage before its first round; to search all imported modules would double a short run's time.
    gc.collect()
    gc.freeze()
    items.sort(key=lambda item: (item.path.name != "test_slurm.py", item.path.parent.name != "workflow"))
    if visible():
        return
    skip = pytest.mark.skip(reason="no GPU visible on this machine")
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(skip)


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """Yield a folder of algorithms outside our tree, in which a test writes some; forget them afterwards."""
    from flatfed import algorithms
    from outside import Outside

    monkeypatch.setattr(algorithms, "__path__", list(algorithms.__path__))
    folder = Outside(tmp_path / "mine")
    yield folder
    folder.forget()
