"""The report of one scale: one self-contained HTML page with every table, every figure, and what they cost.

Report specification (JSON, from ``flatfed.experiment``)::

    {"scale": "preview" | "paper",
     "tables": [<table specification of flatfed.tables.write>, ...],
     "figures": [{"figure": "fedsmoo2023_F7", "title": "...", "caption": "...", "png": "results/.../fedsmoo2023_F7.png"}, ...],
     "runs": ["results/preview/runs/.../seed1", ...],      # every run the tables and figures use, once
     "configuration": {...}}                               # the configuration used (config.yaml as merged)
"""
