"""The formats of a table: one file each, one function ``render(table) -> str``; CSV is in ``write.py``."""
