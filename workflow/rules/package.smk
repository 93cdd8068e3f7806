# The package next to this workflow: here, in every job, on other hosts (they parse this file too), and if another workflow uses
# this one as a module.
import contextlib
import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from snakemake.exceptions import WorkflowError


def home(rules):
    """Return the folder of this workflow, whose rules are in the source folder ``rules``.

    From a git repository (github, gitlab, gitfile, as snakedeploy writes), Snakemake fetches rules without their package. The
    package of the same commit is then unpacked into .snakemake, where jobs on other hosts find it.
    """
    root = Path(rules.get_path_or_uri(secret_free=True)).parents[1]
    if root.is_dir():
        return root
    repository = rules.repo_path if hasattr(rules, "repo_path") else rules.hosted_repo.repo.git_dir
    git = ["git", "-C", str(repository)]
    commit = subprocess.check_output([*git, "rev-parse", f"{rules.ref}^{{commit}}"], text=True).strip()
    folder = Path(".snakemake", "flatfed", commit).resolve()
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        archive = [*git, "archive", "--prefix=package/", commit, "config", "src", "workflow"]
        packed = subprocess.check_output(archive)
        with tempfile.TemporaryDirectory(dir=folder.parent) as part:
            subprocess.run(["tar", "-x", "-C", part], input=packed, check=True)
            with contextlib.suppress(OSError):  # another process was quicker
                Path(part, "package").rename(folder)
    return folder


ROOT = home(workflow.current_basedir)
if {"{", "}"} & set(str(ROOT)):
    raise WorkflowError(f"{ROOT}: Snakemake formats braces in the path of a workflow; rename the folder")

# Jobs start the python of Snakemake, unless `conda:` puts another first. Snakemake removes PYTHONPATH from the environment of
# conda's jobs, so their commands set it.
sys.path.insert(0, str(ROOT / "src"))
for name, folder, inherited in (
    ("PATH", Path(sys.executable).parent, "PATH"),
    ("FLATFED_PATH", ROOT / "src", "PYTHONPATH"),
):
    os.environ[name] = os.pathsep.join([str(folder), *filter(None, [os.environ.get(inherited)])])

from flatfed.commands import configuration
from flatfed.errors import FlatFedError
from flatfed.plan import loading

# A job takes the configuration of its call from a copy; a call ignores a copy of another one.
READS_FILES = workflow.is_main_process or configuration.VARIABLE not in os.environ


def reports_errors(question):
    """Make a FlatFedError of ``question`` end the workflow with its message."""

    @functools.wraps(question)
    def ask(*args, **kwargs):
        try:
            return question(*args, **kwargs)
        except FlatFedError as error:
            raise WorkflowError(str(error)) from None

    return ask


# Before `configfile:`, whose reader reports no key or line and accepts duplicate keys. As a module, this file belongs to the other
# workflow.
if (
    READS_FILES
    and Path(loading.FILE).exists()
    and Path(workflow.main_snakefile).resolve().is_relative_to(ROOT)
):
    reports_errors(loading.read)(Path(loading.FILE))
