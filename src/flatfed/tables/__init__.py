"""From runs to the printed page: cells, tables, figures and the report.
 ``cells`` turns the runs of one cell into one number (standard library only: there are thousands of cells
and each is a process of its own). ``write`` sets a table in four formats, ``figures`` draws, ``report``
binds everything into one page. Each takes a specification, plain JSON, whose keys its module's docstring
lists; none of them reads the configuration.
"""
