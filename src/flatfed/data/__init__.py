"""Datasets as memory-mappable arrays, their partitions over clients, and augmentation on the device."""
