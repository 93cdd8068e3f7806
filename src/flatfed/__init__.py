"""FlatFed: the tables and figures of four papers on sharpness-aware federated learning, regenerated cell by cell."""

__version__ = "0.1.0"
