"""``make mutants``: make every mistake of mutations.py in a copy of the source; do the algorithm's tests notice?

Every mutant is a fork of a process that has imported torch: it imports flatfed from its own copy and runs the cases of
test_second_implementation that the algorithm has. Prints the survivors; exit status 1 if there are any.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).parent))

from mutations import MUTATIONS, source_file  # noqa: E402

NOTICED, SURVIVED, BROKEN = 0, 3, 4
UNKNOWN = 2  # exit status where there is no such algorithm


def mutate(folder: Path, mutation: tuple[str, str, str, str] | None) -> Path:
    """Return a copy of the source in ``folder`` with the mistake made."""
    src = folder / "src"
    shutil.copytree(ROOT / "src", src, ignore=shutil.ignore_patterns("__pycache__"))
    if mutation is not None:
        file, text, other, _ = mutation
        path = src / "flatfed" / source_file(file)
        content = path.read_text()
        if content.count(text) != 1:
            raise SystemExit(f"{file}: {text!r} is there {content.count(text)} times; expected: once")
        path.write_text(content.replace(text, other))
    return src


def attempt(name: str, src: Path, folder: Path) -> int:
    """Return whether the tests of algorithm ``name`` notice anything about the source in ``src``; in a fork."""
    sys.path[:0] = [str(src), str(ROOT / "tests"), str(ROOT / "tests" / "oracle")]
    torch.set_num_threads(1)
    os.dup2(os.open(folder / "output", os.O_WRONLY | os.O_CREAT), 2)
    import test_second_implementation as second

    cases = [params for one, params in second.CASES if one == name]
    changes = [{}, *(second.OTHER_PEERS if (name, cases[0]) in second.PEERS else [])]
    for place, params in enumerate(cases):
        for number, change in enumerate(changes):
            try:
                second.check(folder / f"{place}-{number}", name, params, "stacked", **change)
            except Exception as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr)
                return NOTICED
    return SURVIVED


def run(name: str, mutation: tuple[str, str, str, str] | None) -> int:
    """Return the outcome of one mutant."""
    with tempfile.TemporaryDirectory(prefix="flatfed-mutant-") as folder:
        src = mutate(Path(folder), mutation)
        process = os.fork()
        if process == 0:
            status = BROKEN
            try:
                status = attempt(name, src, Path(folder))
            finally:
                os._exit(status)
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def main(wanted: list[str]) -> int:
    """Run the mutants of the algorithms ``wanted`` (none: all); return the exit status."""
    if strange := [name for name in wanted if name not in MUTATIONS]:
        print(f"mutants: unknown algorithm {strange[0]!r}; known: {', '.join(MUTATIONS)}", file=sys.stderr)
        return UNKNOWN
    began = time.monotonic()
    jobs = [(name, mutation) for name in wanted or MUTATIONS for mutation in (None, *MUTATIONS[name])]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = list(pool.map(lambda job: run(*job), jobs))
    wrong = []
    for (name, mutation), outcome in zip(jobs, outcomes, strict=True):
        if mutation is None:
            if outcome != SURVIVED:
                wrong.append(f"{name}: its tests fail without any mistake")
        elif outcome != NOTICED:
            wrong.append(f"{name}: {mutation[3]} ({source_file(mutation[0])}: {mutation[1]!r} -> {mutation[2]!r})")
    count = sum(mutation is not None for _, mutation in jobs)
    print(f"{count} mutants of {len(set(name for name, _ in jobs))} algorithms in {time.monotonic() - began:.0f} s")
    print("\n".join(["survivors:", *wrong]) if wrong else "no survivors")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
