"""Cells, tables, comparisons with the papers, and the report."""
