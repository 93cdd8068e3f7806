"""What the Snakefile alone asks: targets, last words, jobs forked from a warm process."""
