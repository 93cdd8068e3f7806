"""The loss around runs' models, and between two of them."""

#: Increased when the numbers of a surface or line change.
VERSION = 1
