"""Memory that a run needs."""
