"""One training as a process: description in, metrics, model and record out; checkpoint, interruption, progress."""
