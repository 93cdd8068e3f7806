"""The printed results of the papers: numbers, units, metrics and contradictions."""
