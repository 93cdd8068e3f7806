"""``python -m flatfed``: see :mod:`flatfed.cli`."""

import sys

from flatfed.cli import main

sys.exit(main())
