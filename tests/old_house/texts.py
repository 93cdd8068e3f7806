"""Print what a checkout of FlatFed plans and says: digests of its jobs, and its messages.

``python tests/old_house/texts.py CHECKOUT > tests/old_house/72abba8b.json``: call it again, with ``.`` for CHECKOUT, in
a commit that changes jobs or messages on purpose. Git then shows every change.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

SCALES = ("preview", "paper")

#: Rules of which a change of params or inputs loses finished work.
RULES = ("fetch", "partition", "train", "tuning_run", "timing", "hessian", "surface")


def read(checkout: Path, *question: str) -> Any:
    """Return the answer of the sources in ``checkout`` to ``jobs SCALE`` or ``messages STEP``, from a new process."""
    env = {**os.environ, "PYTHONPATH": str(checkout / "src"), "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, __file__, str(checkout), *question]
    return json.loads(subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE).stdout)


def all_texts(checkout: Path) -> dict[str, Any]:
    """Return all jobs and messages of ``checkout``."""
    with ThreadPoolExecutor(2) as pool:
        *planned, said = pool.map(lambda q: read(checkout, *q), [*(("jobs", s) for s in SCALES), ("messages", "1")])
    return {"jobs": dict(zip(SCALES, planned, strict=True)), "messages": said}


def digest(text: str) -> str:
    """Return the first 10 digits of the SHA-256 of ``text``."""
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def jobs(checkout: Path, scale: str) -> dict[str, dict[str, str]]:
    """Return folder -> output -> digests, for each job of RULES that Snakemake plans if no results exist.

    The first digest covers params and inputs; the second, of trainings and timings, covers all settings of the run.
    """
    from snakemake.api import ConfigSettings, DAGSettings, OutputSettings, ResourceSettings, SnakemakeApi
    from snakemake.settings.enums import Quietness

    found: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as folder, SnakemakeApi(OutputSettings(quiet={Quietness.ALL})) as api:
        shutil.copytree(checkout / "config", f"{folder}/config")
        settings = {"config_settings": ConfigSettings(config={"scale": scale}), "workdir": Path(folder)}
        workflow = api.workflow(ResourceSettings(cores=1), snakefile=checkout / "Snakefile", **settings)
        workflow.dag(DAGSettings(targets={"everything", "tuning_everything"})).execute_workflow("dryrun")
        for job in workflow._workflow.dag.jobs:
            if job.rule.name in RULES:
                decisive = [sorted(job.input), sorted(map(repr, job.non_derived_params))]
                settings = job.params.get("config", job.params.get("run"))  # "run" in 72abba8b
                texts = [repr(decisive), *filter(None, [settings])]
                folder, name = split(job.rule.name, job.output[0])
                found.setdefault(folder, {})[name] = " ".join(map(digest, texts))
    return {folder: dict(sorted(outputs.items())) for folder, outputs in sorted(found.items())}


def split(rule: str, output: str) -> tuple[str, str]:
    """Return an output as a folder and the rest; the outputs of one row are in one folder."""
    parts = Path(output).parent.parts if rule in ("train", "tuning_run", "fetch") else Path(output).parts
    end = 5 if len(parts) > 5 else len(parts) - 1
    return "/".join(parts[:end]), "/".join(parts[end:])


def messages(checkout: Path, step: str = "1") -> dict[str, dict[str, str]]:
    """Return kind -> mistake -> message, for each ``step``-th entry of tests/config/mistakes.py."""
    sys.path[:0] = [str(checkout / "tests" / part) for part in ("config", "")]
    import mistakes

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        texts = {
            kind: {key(name): message(*call) for name, call in list(calls.items())[:: int(step)]}
            for kind, calls in calls_of(mistakes, checkout).items()
        }
        places = {str(Path.cwd()): "<here>", str(checkout): "<checkout>"}
    for place, name in places.items():
        texts = {kind: {key: text.replace(place, name) for key, text in said.items()} for kind, said in texts.items()}
    # Numbers that other entries and comments of the configuration change.
    for kind, said in texts.items():
        texts[kind] = {key: re.sub(r"\ball \d+:", "all:", text) for key, text in said.items()}
    return texts | {"FILES": {key: re.sub(r"\bline \d+", "line", text) for key, text in texts["FILES"].items()}}


def key(name: str) -> str:
    """Return the name of a mistake; for a long YAML file, its digest."""
    return name if len(name) <= 60 and name.isascii() else digest(ascii(name))


def message(call: Callable[..., Any], *arguments: Any) -> str:
    """Return the error of a call: its message, or what it prints on stderr, without the usage of a command."""
    from flatfed.errors import FlatFedError

    with io.StringIO() as error:
        try:
            with contextlib.redirect_stderr(error):
                call(*arguments)
        except FlatFedError as refusal:
            return str(refusal)
        except SystemExit:
            return error.getvalue().splitlines()[-1]
        return error.getvalue()


def calls_of(mistakes: Any, checkout: Path) -> dict[str, dict[str, tuple]]:
    """Return kind -> mistake -> the call, with its arguments, that makes the mistake in the current folder."""
    from test_mistakes import fetch, partition

    import own_files
    from flatfed import cli, plan
    from flatfed.config import strict_yaml
    from flatfed.data import sources
    from flatfed.plan.reference import Errata

    shipped = plan.load(checkout)
    shutil.copytree(checkout / "config", "config")
    own_files.photos(Path())
    sources.fetch(mistakes.DIGITS, Path("digits"))

    def in_a_file(file: str, text: str | None, other: str) -> None:
        path = Path("config", file)
        before = path.read_bytes()
        content = before.decode()
        changed = content + other if text == "" else other if text is None else content.replace(text, other, 1)
        path.write_bytes(changed.encode("utf-8", "surrogateescape"))
        try:
            plan.load(Path()).check()
            Errata(Path())
        finally:
            path.write_bytes(before)

    def in_values(change: dict) -> None:
        plan.load(checkout, {"scale": "preview", "tables": [], "figures": [], **change}).check()

    def in_yaml(content: str) -> None:
        Path("f.yaml").write_bytes(content.encode("utf-8", "surrogateescape"))
        strict_yaml.read(Path("f.yaml"), "f")

    def in_own_file(path: tuple, value: Any) -> None:
        own_files.load(change=own_files.put(*path, value=value)).check()

    def command(*words: object) -> None:
        cli.main([str(word) for word in words])

    return {
        "FILES": {name: (in_a_file, *entry[:3]) for name, entry in mistakes.FILES.items()},
        "VALUES": {name: (in_values, entry[0]) for name, entry in mistakes.VALUES.items()},
        "YAML": {content: (in_yaml, content) for content in mistakes.YAML},
        "OWN": {name: (in_own_file, *entry[:2]) for name, entry in mistakes.OWN.items()},
        "RUNS": {name: (shipped.run, *entry[0], 1) for name, entry in mistakes.RUNS.items()},
        "COMMANDS": {name: (command, *entry[0]) for name, entry in mistakes.COMMANDS.items()},
        "DATASETS": {name: (command, *fetch(entry[0])) for name, entry in mistakes.DATASETS.items()},
        "PARTITIONS": {name: (command, *partition(*it[:2], "digits")) for name, it in mistakes.PARTITIONS.items()},
    }


def main(checkout: str, *question: str) -> None:
    """Print the answer to ``question``, or all texts, as JSON."""
    kind, *arguments = question or ("all",)
    answer = {"jobs": jobs, "messages": messages, "all": all_texts}[kind](Path(checkout).resolve(), *arguments)
    print(json.dumps(answer, indent=0, ensure_ascii=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
