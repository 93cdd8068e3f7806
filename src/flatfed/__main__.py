"""``python -m flatfed``."""

import sys

try:
    from flatfed.cli import main

    status = main()
except KeyboardInterrupt:  # before a command could handle it
    status = 130
sys.exit(status)
