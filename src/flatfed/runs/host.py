"""What a host computes with: its CPU's model and instruction sets, as records of runs name them."""

from __future__ import annotations

import platform
import subprocess
import sys
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
    name = about.get("model name") or about.get("Processor") or _apple() or platform.processor() or platform.machine()
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


def _apple() -> str:
    """Return what macOS calls its CPU."""
    if sys.platform != "darwin":
        return ""
    answer = subprocess.run(["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False)
    return answer.stdout.strip()
