"""The round loop: rows, executors, clients, state, checkpoints."""
