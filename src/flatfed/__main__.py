"""``python -m flatfed``: see :mod:`flatfed.cli`. Jobs of a workflow that import torch fork from a process that has."""

import os
import sys

status = None
if "FLATFED_WARM" in os.environ:
    from flatfed import warm

    status = warm.run(sys.argv[1:])
if status is None:
    from flatfed.cli import main

    status = main()
sys.exit(status)
