"""A throw-away copy of the project in which a test can change anything and call the real Snakemake."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
TABLE = "fedsmoo2023_T1"
COLUMN = "cifar10-dir0.6-100"
SPLIT = "dir0.6-100"
ROWS = ["fedavg", "feddyn", "fedsam", "fedsmoo"]
PARTS = ("Snakefile", "environment.yml", "config", "profiles", "src", "workflow")


def jobs_of(text):
    """Return command -> outputs of the jobs in the shell lines of a dry run."""
    jobs = {}
    for command, made in re.findall(r"python -m flatfed (\w+) .*? --out(?:-dir)? (\S+)", text):
        jobs.setdefault(command, set()).add(made)
    return jobs


class Project:
    """A copy of the project at ``root``."""

    def __init__(self, root):
        self.root = Path(root)

    @classmethod
    def copied(cls, root, source=REPOSITORY, parts=PARTS):
        """Copy ``parts`` of ``source``, times of files included, to ``root``."""
        ignore = shutil.ignore_patterns("__pycache__")
        for part in parts:
            if (source / part).is_dir():
                shutil.copytree(source / part, root / part, ignore=ignore)
            else:
                shutil.copy2(source / part, root / part)
        return cls(root)

    def clone(self, root):
        """Return a copy with results, Snakemake's records and the times of all files."""
        shutil.copytree(self.root, root, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        return Project(root)

    def call(self, *command, env=None):
        """Run a command in the project, in an environment that knows nothing of flatfed."""
        clean = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "SNAKEMAKE_PROFILE")}
        clean["COLUMNS"] = "200"
        return subprocess.run(
            [str(part) for part in command],
            cwd=self.root,
            env={**clean, **(env or {})},
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )

    def snakemake(self, *arguments, env=None):
        """Call Snakemake on two cores; return exit status and output, both streams in ``.text``."""
        done = self.call(sys.executable, "-m", "snakemake", "--cores", "2", *arguments, env=env)
        done.text = done.stdout + done.stderr
        return done

    def flatfed(self, *arguments):
        """Call ``python -m flatfed`` of this copy."""
        done = self.call(sys.executable, "-m", "flatfed", *arguments, env={"PYTHONPATH": str(self.root / "src")})
        done.text = done.stdout + done.stderr
        return done

    def make(self, *arguments, env=None):
        """Call Snakemake, which must succeed."""
        done = self.snakemake(*arguments, env=env)
        assert done.returncode == 0, done.text
        return done

    def refused(self, *arguments):
        """Call Snakemake, which must fail without a trace of Python; return its output."""
        done = self.snakemake(*arguments)
        assert done.returncode != 0 and "Traceback (most recent call last)" not in done.text, done.text
        return done.text

    def planned(self, *arguments):
        """Return command -> outputs of the jobs that Snakemake would run, from the shell lines of a dry run."""
        return jobs_of(self.make("--dry-run", "--printshellcmds", *arguments).text)

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
