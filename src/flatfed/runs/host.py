"""What a host computes with: its CPU's model and instruction sets, as records of runs name them."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")

#: Instruction sets that decide how fast, and in which order, a CPU adds numbers: x86's, then Arm's.
SETS = (
    *("avx", "avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8"),
    *("asimd", "asimdhp", "sve", "sve2", "bf16", "i8mm"),
)

#: Those of them that multiply bfloat16; a CPU without one only imitates it.
BFLOAT16 = ("amx_bf16", "avx512_bf16", "bf16")


@cache
def processor() -> str:
    """Return the CPU's model, as ``AMD EPYC (family 25, model 17)``: several models may have one name."""
    about = _cpuinfo()
    name = about.get("model name") or platform.processor() or platform.machine()
    if "cpu family" in about and "model" in about:
        return f"{name} (family {about['cpu family']}, model {about['model']})"
    return name


@cache
def instructions() -> tuple[str, ...]:
    """Return which of ``SETS`` the CPU has; none where the system does not say."""
    about = _cpuinfo()
    flags = set((about.get("flags") or about.get("Features") or "").split())
    return tuple(name for name in SETS if name in flags)


def _cpuinfo() -> dict[str, str]:
    """Return what Linux says of the first CPU."""
    try:
        first = CPUINFO.read_text(encoding="utf-8").split("\n\n")[0]
    except OSError:
        return {}
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}
