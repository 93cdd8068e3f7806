"""What the Snakefile alone asks: targets, requests of a cluster, bars, last words, jobs forked from a warm process."""
