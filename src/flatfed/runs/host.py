"""Model and instruction sets of the CPU of this host, for records of runs."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")

#: Instruction sets of x86 and Arm that decide how fast, and in which order, a CPU adds numbers.
SETS = (
    *("avx", "avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8"),
    *("asimd", "asimdhp", "sve", "sve2", "bf16", "i8mm"),
)

#: Those that multiply bfloat16.
BFLOAT16 = ("amx_bf16", "avx512_bf16", "bf16")


@cache
def processor() -> str:
    """Return the CPU's model, as ``AMD EPYC (family 25, model 17)``: several models may share a name."""
    entries = _cpuinfo()
    name = entries.get("model name") or platform.processor() or platform.machine()
    if "cpu family" in entries and "model" in entries:
        return f"{name} (family {entries['cpu family']}, model {entries['model']})"
    return name


@cache
def instructions() -> tuple[str, ...]:
    """Return the CPU's instruction sets among ``SETS``; empty if the system does not list them."""
    entries = _cpuinfo()
    flags = (entries.get("flags") or entries.get("Features") or "").split()
    return tuple(name for name in SETS if name in flags)


def _cpuinfo() -> dict[str, str]:
    try:
        lines = CPUINFO.read_text(encoding="utf-8").split("\n\n")[0].splitlines()
    except OSError:
        return {}
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
