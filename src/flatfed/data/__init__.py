"""Datasets, partitions over clients, augmentation and random streams."""

#: Version of `fetch`: increase it when the same source gives other files.
VERSION = 2
