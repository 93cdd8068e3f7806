import functools
import os
import shlex
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from snakemake.exceptions import WorkflowError


def home(rules):
    """The folder that holds this workflow, whose rules are in the source folder ``rules``.

    Taken from a git repository (github, gitlab, gitfile: what the workflow catalog's snakedeploy writes), Snakemake fetches
    rules, not the package that they call: the commit's own goes to .snakemake, where jobs on other hosts see it, too.
    """
    root = Path(rules.get_path_or_uri(secret_free=True)).parents[1]
    if root.is_dir():
        return root
    repository = rules.repo_path if hasattr(rules, "repo_path") else rules.hosted_repo.repo.git_dir
    git = ["git", "-C", str(repository)]
    said = subprocess.run(
        [*git, "rev-parse", f"{rules.ref}^{{commit}}"], capture_output=True, text=True, check=True
    )
    place = Path(".snakemake", "flatfed", said.stdout.strip()).resolve()
    if not place.is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as part:
            words = [*git, "archive", place.name, "config", "src", "workflow"]
            with subprocess.Popen(words, stdout=subprocess.PIPE) as packed:
                safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Python 3.11.4 has it
                tarfile.open(fileobj=packed.stdout, mode="r|").extractall(f"{part}/whole", **safe)
            try:
                Path(part, "whole").rename(place)
            except OSError:  # another process was quicker
                pass
    return place


ROOT = home(workflow.current_basedir)

# flatfed is found where this workflow is: here, in every job, on other hosts (which parse this file too), and when another
# workflow takes this one as a module. Jobs start the python that runs Snakemake, unless `conda:` puts another before it.
sys.path.insert(0, str(ROOT / "src"))
for name, folder in ("PYTHONPATH", ROOT / "src"), ("PATH", Path(sys.executable).parent):
    before = os.environ.get(name)
    os.environ[name] = os.pathsep.join([str(folder), *([before] if before else [])])
# Snakemake takes PYTHONPATH out of the environment of conda's jobs; the prefix of the shell puts it back. There is one for all
# rules of a call: what a workflow that takes this one as a module has said stays before it.
src = shlex.quote(str(ROOT / "src"))
exported = f"export PYTHONPATH=${{{{PYTHONPATH:-{src}}}}}; "
said = shell._process_prefix or ""
if exported not in said:
    shell.prefix(f"set -euo pipefail; {said}{exported}")

from flatfed.errors import FlatFedError
from flatfed.experiment import selection


def told(question):
    """Have a FlatFedError of ``question`` end the workflow with its message."""

    @functools.wraps(question)
    def ask(*args, **kwargs):
        try:
            return question(*args, **kwargs)
        except FlatFedError as error:
            raise WorkflowError(str(error)) from None

    return ask


# Before `configfile:`, whose reader names neither key nor line, and takes a key given twice. As a module, the file of this
# name is the other workflow's.
if Path(workflow.main_snakefile).resolve().is_relative_to(ROOT):
    told(selection.check_file)(Path(selection.FILE))
