"""``python -m flatfed``: see :mod:`flatfed.cli`. Jobs of a workflow that import torch fork from a process that has."""

import os
import sys

status = None
try:
    if "FLATFED_WARM" in os.environ:
        from flatfed.workflow import warm

        status = warm.run(sys.argv[1:])
    if status is None:
        from flatfed.cli import main

        status = main()
except KeyboardInterrupt:  # before there was a command to answer it
    status = 130
sys.exit(status)
