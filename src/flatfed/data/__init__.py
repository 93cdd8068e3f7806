"""Datasets as memory-mappable arrays, their partitions over clients, and augmentation on the device."""

#: The version of `fetch`: increased when it makes other arrays of the same source.
VERSION = 1
