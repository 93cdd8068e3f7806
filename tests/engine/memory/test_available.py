"""How much memory there is, and that what is freed is kept where the C library can be told to."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from flatfed.engine.job import machine
from flatfed.engine.memory import available


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (1 << 30, [(-3, 1 << 30), (-1, (1 << 31) - 1)]),
        (1 << 25, [(-3, 1 << 30), (-3, 1 << 25), (-1, (1 << 31) - 1)]),  # an older glibc
        (0, [(-3, 1 << 30), (-3, 1 << 25)]),  # the trim threshold alone would make it slower than nothing
    ],
)
def test_memory_is_kept_where_the_c_library_can(monkeypatch, most, expected):
    told = []

    def mallopt(number, value):
        told.append((number, value))
        return int(number != -3 or value <= most)

    monkeypatch.setattr(available.ctypes, "CDLL", lambda name: SimpleNamespace(mallopt=mallopt))
    machine.set_up(1)
    assert told == expected
    monkeypatch.setattr(available.ctypes, "CDLL", lambda name: object())
    machine.set_up(1)
    assert told == expected, "another C library is left alone"


def test_this_machines_c_library_takes_what_older_ones_do():
    probe = "import ctypes; print(getattr(ctypes.CDLL(None), 'mallopt', lambda *_: 'none')(-3, 1 << 25))"
    found = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert found.stdout.strip() in ("1", "none")


def test_available_memory_is_the_machines_or_what_a_cgroup_leaves(tmp_path):
    def write(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    assert available.available(tmp_path) > 0, "where there is no /proc"
    write("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    8000 kB\n")
    assert available.available(tmp_path) == 8000 * 1024
    write("proc/self/cgroup", "12:pids:/a\n5:cpuset,memory:/job\n0::/slurm/job1/step\n")
    assert available.available(tmp_path) == 8000 * 1024, "groups that set no limit"
    # Version 2: the step has none of its own, the job has 5 MB, of which 3 are taken, 1 of that by files.
    write("sys/fs/cgroup/slurm/job1/step/memory.max", "max\n")
    write("sys/fs/cgroup/slurm/job1/step/memory.current", "1000\n")
    for name, text in (("max", "5000000"), ("current", "3000000"), ("stat", "anon 7\ninactive_file 1000000\n")):
        write(f"sys/fs/cgroup/slurm/job1/memory.{name}", text)
    assert available.available(tmp_path) == 3_000_000
    for name, text in (("limit_in_bytes", "9"), ("usage_in_bytes", "7"), ("stat", "total_inactive_file 0")):
        write(f"sys/fs/cgroup/memory/job/memory.{name}", text)
    assert available.available(tmp_path) == 2
