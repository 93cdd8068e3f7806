"""The memory that a run needs, and reactions to a shortage."""
