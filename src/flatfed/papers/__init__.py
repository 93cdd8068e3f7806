"""What the papers printed: numbers, units, what they are of, and where they contradict themselves."""
