"""``python -m flatfed``. Training jobs of the workflow fork from a process that has imported torch."""

import os
import sys

status = None
try:
    if "FLATFED_WARM" in os.environ:
        from flatfed.snakemake_support import warm

        status = warm.run(sys.argv[1:])
    if status is None:
        from flatfed.cli import main

        status = main()
except KeyboardInterrupt:  # before a command could handle it
    status = 130
sys.exit(status)
