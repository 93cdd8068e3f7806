"""The sub-commands of :mod:`flatfed.cli` that are more than one call."""
