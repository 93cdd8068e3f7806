"""FlatFed reproduces the tables and figures of four papers on sharpness-aware federated learning."""

__version__ = "0.1.0"
