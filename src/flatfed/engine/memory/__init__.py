"""What a run will need of memory, and what is done where it is not there."""
