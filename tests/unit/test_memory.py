"""Freed memory is kept where the C library can be told to."""

from types import SimpleNamespace

from flatfed.engine import memory, train


def test_memory_is_kept_where_the_c_library_can(monkeypatch):
    told = []
    library = SimpleNamespace(mallopt=lambda *arguments: told.append(arguments))
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: library)
    train.set_up(1)
    assert told == [(-3, 1 << 30), (-1, (1 << 31) - 1)]
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: object())
    train.set_up(1)
    assert len(told) == 2, "another C library is left alone"
