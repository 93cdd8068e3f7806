"""One training as a process: settings in, metrics, model and record out; checkpoint, interruption, progress."""
