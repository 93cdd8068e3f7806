"""What the configuration asks of tables and figures, and the cells that come back: dataclasses, plain JSON on disk.

``flatfed.experiment`` makes them, Snakemake passes them on, ``flatfed.tables`` and ``flatfed.figures`` take them.
:func:`flatfed.forms.read` and :func:`flatfed.forms.plain` are their reader and writer. Standard library only.
"""
