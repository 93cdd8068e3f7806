import functools
import os
import shlex
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

ROOT = Path(workflow.current_basedir.get_path_or_uri(secret_free=True)).parents[1]

# flatfed is found where this workflow is: here, in every job, on other hosts (which parse this file too), and when another
# workflow takes this one as a module. Jobs start the python that runs Snakemake, unless `conda:` puts another before it.
sys.path.insert(0, str(ROOT / "src"))
for name, folder in ("PYTHONPATH", ROOT / "src"), ("PATH", Path(sys.executable).parent):
    before = os.environ.get(name)
    os.environ[name] = os.pathsep.join([str(folder), *([before] if before else [])])
# Snakemake takes PYTHONPATH out of the environment of conda's jobs; the prefix of the shell puts it back.
src = shlex.quote(str(ROOT / "src"))
shell.prefix(f"set -euo pipefail; export PYTHONPATH=${{{{PYTHONPATH:-{src}}}}}; ")

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
