"""From runs to the printed page: cells, tables, comparisons with the papers, and the report.

``cells`` turns the runs of one cell into one number. ``write`` sets a table in four formats, ``report`` binds tables
and figures into one page. Their specifications are those of :mod:`flatfed.experiment.model`.
"""
