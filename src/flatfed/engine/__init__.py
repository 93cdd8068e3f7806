"""Federated rounds."""
