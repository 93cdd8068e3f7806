"""``make mutants``: make every mistake of mutations.py in the source, one at a time; do the algorithm's tests notice?

Every mutant is a fork of a process that has run an algorithm, so all of torch is loaded. It imports flatfed again, with
the mistake, and runs the cases of test_second_implementation that the algorithm has. Prints the algorithms with their
survivors; exit status 1 if there are any.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import SourceFileLoader
from pathlib import Path

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # torch cannot fork once it has seen a GPU
ROOT = Path(__file__).resolve().parents[2]
SOURCES = [str(ROOT / "src"), str(ROOT / "tests" / "oracle"), str(ROOT / "tests")]
sys.path[:0] = [*SOURCES, str(Path(__file__).parent)]

import torch  # noqa: E402
from mutations import MUTATIONS, source_file  # noqa: E402

Mutation = tuple[str, str, str, str]
NOTICED, SURVIVED, BROKEN = 0, 3, 4
UNKNOWN = 2  # exit status where there is no such algorithm


def forget() -> None:
    """Have the next import read flatfed and the tests again."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if name.startswith("flatfed") or file.startswith(tuple(f"{folder}/" for folder in SOURCES)):
            del sys.modules[name]


def make(mutation: Mutation) -> None:
    """Have the next import of the file of ``mutation`` read its mistake."""
    file, text, other, _ = mutation
    path, get_code = ROOT / "src" / "flatfed" / source_file(file), SourceFileLoader.get_code

    def get_mutated(loader: SourceFileLoader, name: str):
        if Path(loader.path) == path:
            return compile(path.read_text(encoding="utf-8").replace(text, other), path, "exec")
        return get_code(loader, name)

    SourceFileLoader.get_code = get_mutated


def attempt(name: str, folder: Path) -> int:
    """Return whether the tests of algorithm ``name`` notice anything."""
    import test_second_implementation as second

    cases = [params for one, params in second.CASES if one == name]
    changes = [{}, *(second.OTHER_PEERS if (name, cases[0]) in second.PEERS else [])]
    for place, params in enumerate(cases):
        for number, change in enumerate(changes):
            try:
                second.check(folder / f"{place}-{number}", name, params, "stacked", **change)
            except Exception:
                return NOTICED
    return SURVIVED


def run(name: str, mutation: Mutation | None) -> int:
    """Return the outcome of one mutant."""
    with tempfile.TemporaryDirectory(prefix="flatfed-mutant-") as folder:
        process = os.fork()
        if process == 0:
            status = BROKEN
            try:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                forget()
                if mutation is not None:
                    make(mutation)
                status = attempt(name, Path(folder))
            finally:
                os._exit(status)
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def main(wanted: list[str]) -> int:
    """Run the mutants of the algorithms ``wanted`` (none: all); return the exit status."""
    if strange := [name for name in wanted if name not in MUTATIONS]:
        print(f"mutants: unknown algorithm {strange[0]!r}; known: {', '.join(MUTATIONS)}", file=sys.stderr)
        return UNKNOWN
    began = time.monotonic()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        attempt("fedsam", Path(folder))
    jobs = [(name, mutation) for name in wanted or MUTATIONS for mutation in (None, *MUTATIONS[name])]
    wrong = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for (name, mutation), outcome in zip(jobs, pool.map(lambda job: run(*job), jobs), strict=True):
            if mutation is None:
                print(name, flush=True)
            if outcome != (SURVIVED if mutation is None else NOTICED):
                wrong += 1
                print("  survivor:", *(mutation or ["its tests fail without any mistake"]), sep="\n    ", flush=True)
    count = sum(mutation is not None for _, mutation in jobs)
    print(f"{count} mutants of {len(set(name for name, _ in jobs))} algorithms in {time.monotonic() - began:.0f} s")
    print(f"{wrong} survivors" if wrong else "no survivors")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
