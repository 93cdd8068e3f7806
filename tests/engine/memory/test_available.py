"""How much memory there is, and that freed memory is kept where the C library supports it."""

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
        (None, []),  # another C library is left alone
    ],
)
def test_memory_is_kept_where_the_c_library_can(monkeypatch, most, expected):
    calls = []

    def mallopt(number, value):
        calls.append((number, value))
        return int(number != -3 or value <= most)

    library = SimpleNamespace() if most is None else SimpleNamespace(mallopt=mallopt)
    monkeypatch.setattr(available.ctypes, "CDLL", lambda name: library)
    machine.set_up(1)
    assert calls == expected


def test_available_memory_is_the_machines_or_what_a_cgroup_leaves(tmp_path):
    def write(folder, **files):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (tmp_path / folder / name.replace("__", ".")).write_text(text)

    assert available.available(tmp_path) > 0, "where there is no /proc"
    write("proc", meminfo="MemTotal: 9000 kB\nMemAvailable:    8000 kB\n")
    assert available.available(tmp_path) == 8000 * 1024
    write("proc/self", cgroup="12:pids:/a\n5:cpuset,memory:/job\n0::/slurm/job1/step\n")
    assert available.available(tmp_path) == 8000 * 1024, "groups that set no limit"
    # Version 2: the step has none of its own, the job has 5 MB, of which 3 are taken, 1 of that by files.
    write("sys/fs/cgroup/slurm/job1/step", memory__max="max\n", memory__current="1000\n")
    job = {"memory__max": "5000000", "memory__current": "3000000", "memory__stat": "anon 7\ninactive_file 1000000\n"}
    write("sys/fs/cgroup/slurm/job1", **job)
    assert available.available(tmp_path) == 3_000_000
    job = {"limit_in_bytes": "9", "usage_in_bytes": "7", "stat": "total_inactive_file 0"}
    write("sys/fs/cgroup/memory/job", **{f"memory__{name}": text for name, text in job.items()})
    assert available.available(tmp_path) == 2
