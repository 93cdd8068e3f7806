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
    """Return the folder of this workflow, whose rules are in the source folder ``rules``.

    From a git repository (github, gitlab, gitfile, as snakedeploy writes), Snakemake fetches rules without their package. The
    package of the same commit is then unpacked into .snakemake, where jobs on other hosts find it.
    """
    root = Path(rules.get_path_or_uri(secret_free=True)).parents[1]
    if root.is_dir():
        return root
    repository = rules.repo_path if hasattr(rules, "repo_path") else rules.hosted_repo.repo.git_dir
    git = ["git", "-C", str(repository)]
    revision = [*git, "rev-parse", f"{rules.ref}^{{commit}}"]
    commit = subprocess.run(revision, capture_output=True, text=True, check=True).stdout.strip()
    folder = Path(".snakemake", "flatfed", commit).resolve()
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as part:
            archive = [*git, "archive", commit, "config", "src", "workflow"]
            with subprocess.Popen(archive, stdout=subprocess.PIPE) as packed:
                safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Python 3.11.4 has it
                tarfile.open(fileobj=packed.stdout, mode="r|").extractall(f"{part}/package", **safe)
            try:
                Path(part, "package").rename(folder)
            except OSError:  # another process was quicker
                pass
    return folder


ROOT = home(workflow.current_basedir)
if {"{", "}"} & set(str(ROOT)):
    raise WorkflowError(f"{ROOT}: Snakemake formats braces in the path of a workflow; rename the folder")

# Python finds flatfed next to this workflow: here, in every job, on other hosts (they parse this file too), and if another workflow
# uses this one as a module. Jobs start the python of Snakemake, unless `conda:` puts another first.
sys.path.insert(0, str(ROOT / "src"))
for name, folder in ("PYTHONPATH", ROOT / "src"), ("PATH", Path(sys.executable).parent):
    before = os.environ.get(name)
    os.environ[name] = os.pathsep.join([str(folder), *([before] if before else [])])
# Snakemake removes PYTHONPATH from the environment of conda's jobs; the shell prefix restores it. All rules of a call share one
# prefix: keep the prefix of a workflow that uses this one as a module.
src = shlex.quote(str(ROOT / "src"))
exported = f"export PYTHONPATH=${{{{PYTHONPATH:-{src}}}}}; "
before = shell_prefix()
if exported not in before:
    shell.prefix(f"set -euo pipefail; {before}{exported}")

from flatfed.errors import FlatFedError
from flatfed.plan import loading


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
if Path(workflow.main_snakefile).resolve().is_relative_to(ROOT) and Path(loading.FILE).exists():
    reports_errors(loading.read)(Path(loading.FILE))
