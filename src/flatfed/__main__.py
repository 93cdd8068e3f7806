"""``python -m flatfed``: see :mod:`flatfed.cli`. Workflow jobs that need torch fork from a process that imported it."""

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
except KeyboardInterrupt:  # before a command could handle it
    status = 130
sys.exit(status)
