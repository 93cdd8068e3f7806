"""The notes under a table: how to read it, what is missing, what differs from the paper."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

FLAG = re.compile(r"flag:([A-Z]\d+)")


def gather(
    spec: dict[str, Any], cells: list[dict | None], counts: Mapping[str, int], usual: int | None, differences: bool
) -> list[str]:
    """Return the notes of a table in reading order; only what applies to the cells at hand is said."""
    present = [cell for cell in cells if cell]
    notes = [reading(spec, present, usual, differences)]
    notes += symbols(present)
    notes += absences(counts, len(cells))
    notes += spec.get("notes", [])
    errata = sorted({flag for cell in present for flag in flags(cell)}, key=lambda flag: (flag[0], int(flag[1:])))
    known = spec.get("flags", {})
    return notes + [f"{flag}: {known.get(flag, 'a discrepancy in the paper.')}" for flag in errata]


def reading(spec: dict[str, Any], cells: list[dict], usual: int | None, differences: bool) -> str:
    """Say what a number is: quantity, unit, which rounds, which spread, and how it compares with the paper's."""
    unit = {"percent": " in percent", "rounds": ", counted from round 1"}.get(spec["unit"], f" in {spec['unit']}")
    windows = {cell["window"] for cell in cells if cell["metric"].endswith("accuracy")}
    when = ""
    if windows:
        when = ", final round" if windows == {1} else f", mean over the last {max(windows)} evaluated rounds"
    if usual is None:
        spread = ""
    elif usual == 1:
        spread = " Ours: one seed, so no spread."
    else:
        spread = f" Ours: mean ± sample standard deviation over {usual} seeds; another number of seeds is in brackets."
    paper = " Paper: as printed."
    if differences:
        paper += " Diff.: ours minus the paper's" + (", in percentage points." if spec["unit"] == "percent" else ".")
    elif spec["scale"] == "preview":
        paper += " No difference is taken: this scale's data and model are not the paper's."
    return f"{spec['metric']}{unit}{when}.{spread}{paper}"


def symbols(cells: list[dict]) -> list[str]:
    """Explain the signs that stand in place of numbers, where they occur."""
    notes = []
    late = [cell for cell in cells if cell["status"] == "not_reached"]
    if late:
        rounds = "/".join(str(number) for number in sorted({cell["rounds"] for cell in late}))
        text = f">{rounds}: the target was not reached by every seed within {rounds} rounds"
        some = any(not cell["reached"].startswith("0/") for cell in late)
        notes.append(text + ("; in brackets how many seeds did." if some else "."))
    if any(cell["paper_value"] is None and "not reached" in cell["paper_note"] for cell in cells):
        notes.append("–: printed by the paper for a target not reached.")
    return notes


def absences(counts: Mapping[str, int], total: int) -> list[str]:
    """Count the cells without a number, by reason."""
    words = {"missing": "missing", "diverged": "diverged (a run ended in non-finite numbers)"}
    said = [f"{counts[status]} {text}" for status, text in words.items() if counts.get(status)]
    return [f"Of {total} cells: {', '.join(said)}."] if said else []


def flags(cell: dict) -> tuple[str, ...]:
    """Return the ids of the errata named in the note beside a cell's printed value ("flag:B1" is B1)."""
    return tuple(FLAG.findall(cell["paper_note"]))
