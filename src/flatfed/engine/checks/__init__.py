"""What cannot be trained, found out before the first round or where a hook of an algorithm is first called."""
