"""A run on disk: its record, what it has to be of, and the host that made it. Needs no torch and no numpy."""
