"""From runs to the printed page: cells, tables, comparisons with the papers, and the report.

``cells`` turns the runs of one cell into one number (standard library only: there are thousands of cells, and each is a
process of its own). ``write`` sets a table in four formats, ``report`` binds tables and figures into one page. Their
specifications are those of :mod:`flatfed.experiment.model`; none of them reads the configuration.
"""
