"""A throw-away copy of the project in which a test can change anything and call the real Snakemake."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import forked
import yaml

from repository import ROOT as REPOSITORY

TABLE = "fedsmoo2023_T1"
COLUMN = "cifar10-dir0.6-100"
SPLIT = "dir0.6-100"
ROWS = ["fedavg", "fedsam", "fedsmoo"]
RUNS = f"results/preview/runs/fedsmoo-cifar10/{SPLIT}"
PROTOCOL = "config/protocols/fedsmoo-cifar10.yaml"
PARTS = ("Snakefile", "environment.yml", "config", "profiles", "src", "workflow")
SNAKEMAKE = (sys.executable, "-P", "-m", "snakemake")
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}

#: A line of the trainer, and what replaces it in :meth:`Project.pause`.
SAMPLE = "                    clients = simulation.sample()\n"
PAUSED = f"""{SAMPLE}                    if simulation.round == 1:
                        (self.outputs.out / "paused").touch()
                        while not (self.outputs.out / "go").exists():
                            interruption.check()
                            time.sleep(0.02)
"""


def jobs_of(text):
    """Return command -> outputs of the jobs in the shell lines of a dry run."""
    jobs = {}
    for command, made in re.findall(r"python -P -m flatfed (\w+) .*? --out(?:-dir)? (\S+)", text):
        jobs.setdefault(command, set()).add(made)
    return jobs


def contents(folder):
    """Return the bytes of each file below ``folder``."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def clean():
    """Return an environment that knows nothing of flatfed, in which a copy of the project keeps its bytecode."""
    hidden = ("PYTHONPATH", "SNAKEMAKE_PROFILE", "PYTHONDONTWRITEBYTECODE")
    return {**{key: value for key, value in os.environ.items() if key not in hidden}, "COLUMNS": "200"}


def log_of(run):
    """Return the log of the training of a run."""
    return "logs/" + run.removeprefix("results/").replace("/runs/", "/train/") + ".log"


def wait_for(condition, message, seconds=900):
    """Wait until ``condition`` holds; fail with what ``message`` returns."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, message()
        time.sleep(0.02)  # between two looks


class Project:
    """A copy of the project at ``root``."""

    def __init__(self, root):
        self.root = Path(root)

    @classmethod
    def copied(cls, root, source=REPOSITORY, parts=PARTS):
        """Copy ``parts`` of ``source``, times of files included, to ``root``."""
        root.mkdir(parents=True, exist_ok=True)
        for part in parts:
            if (source / part).is_dir():
                shutil.copytree(source / part, root / part)
            else:
                shutil.copy2(source / part, root / part)
        return cls(root)

    def clone(self, root):
        """Return a copy with results, Snakemake's records and the times of all files."""
        shutil.copytree(self.root, root, dirs_exist_ok=True)
        return Project(root)

    def call(self, *command, env=None):
        """Run a command in the project, in a clean environment; return status and streams, both in ``.text``."""
        environment, words = clean() | (env or {}), [str(part) for part in command]
        if command[:4] == SNAKEMAKE:
            with tempfile.TemporaryDirectory() as folder:
                files = [Path(folder, name) for name in ("stdout", "stderr")]
                status = forked.snakemake(words[4:], self.root, environment, files)
                done = subprocess.CompletedProcess(words, status, *(file.read_text() for file in files))
        else:
            options = {"capture_output": True, "text": True, "check": False, "timeout": 900}
            done = subprocess.run(words, cwd=self.root, env=environment, **options)
        done.text = done.stdout + done.stderr
        return done

    def snakemake(self, *arguments, env=None):
        """Call Snakemake on two cores."""
        return self.call(*SNAKEMAKE, "--cores", "2", *arguments, env=env)

    def flatfed(self, *arguments):
        """Call ``flatfed`` of this copy."""
        return self.call(sys.executable, "-P", "-m", "flatfed", *arguments, env={"PYTHONPATH": str(self.root / "src")})

    def by_hand(self, script):
        """Run a shell script as after `. .venv/bin/activate`."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        done = self.call("bash", "-euc", script, env={"PATH": path, "PYTHONPATH": str(self.root / "src")})
        assert done.returncode == 0, f"{script}\n{done.text}"
        return done

    def make(self, *arguments, env=None):
        """Call Snakemake, which must succeed."""
        done = self.snakemake(*arguments, env=env)
        assert done.returncode == 0, done.text
        return done

    def refused(self, *arguments, env=None):
        """Call Snakemake, which must fail without a trace of Python; return its output."""
        done = self.snakemake(*arguments, env=env)
        assert done.returncode != 0 and "Traceback (most recent call last)" not in done.text, done.text
        return done.text

    def made(self, *arguments):
        """Call Snakemake, which must succeed; return command -> outputs of the jobs that it ran."""
        return jobs_of(self.make("--printshellcmds", *arguments).text)

    def planned(self, *arguments):
        """Return command -> outputs of the jobs that Snakemake would run."""
        return self.made("--dry-run", *arguments)

    def edit(self, path, *changes):
        """Replace each (old, new) of ``changes`` in a file; the old text must be there."""
        file = self.root / path
        text = file.read_text()
        for old, new in changes:
            assert old in text, f"{path} has no {old!r}"
            text = text.replace(old, new)
        file.write_text(text)

    def edit_yaml(self, path, change):
        """Apply the function ``change`` to the content of a YAML file."""
        file = self.root / path
        content = yaml.safe_load(file.read_text())
        change(content)
        file.write_text(yaml.safe_dump(content, sort_keys=False))

    def preview(self, algorithms=None, **settings):
        """Set the parameters of ``algorithms`` and other ``settings`` of the protocol at preview scale."""

        def change(protocol):
            protocol["preview"].setdefault("algorithms", {}).update(algorithms or {})
            protocol["preview"].update(settings)

        self.edit_yaml(PROTOCOL, change)

    def write_checkpoints(self):
        """Write a checkpoint after every round."""
        changes = ("PERIOD = 600.0", "PERIOD = 0.0"), ("SPARING = 20", "SPARING = 0")
        self.edit("src/flatfed/engine/job/checkpoint.py", *changes)

    def pause(self):
        """Have each training write ``paused`` into its folder after the first round, and wait there for ``go``."""
        self.edit("src/flatfed/engine/job/train.py", (SAMPLE, PAUSED))

    def record(self, run):
        """Return the record of the run in a folder."""
        return json.loads((self.root / run / "run.json").read_text())

    def sessions(self, run):
        """Return the rounds after which the sessions of a run began."""
        return [session["from_round"] for session in self.record(run)["sessions"]]

    def table(self, ending="csv"):
        return (self.root / f"results/preview/tables/{TABLE}.{ending}").read_text()
