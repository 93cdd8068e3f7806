"""What the Snakefile alone asks: targets, bars, last words, jobs forked from a warm process."""
