"""The loss surface around a run's model."""

#: Increased when the numbers of a surface change.
VERSION = 1
