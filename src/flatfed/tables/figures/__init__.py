"""Figures: one file per kind in this folder, one entry in ``KINDS``.

Figure specification (JSON, from ``flatfed.experiment``)::

    {"figure": "fedsmoo2023_F7", "kind": "curves", "scale": "preview" | "paper",
     "title": "Test accuracy over rounds", "paper": "Sun et al., ICML 2023, Figure 7",
     "setting": "digits, 30 clients, ...",                  # one line: what was really trained
     "metric": "test_accuracy",                             # a column of metrics.csv, see curves.QUANTITIES
     "smooth": 9,                                           # length of the Hanning window in evaluated rounds, odd; 0: none
     "panels": [{"title": "Dirichlet, u = 0.6",             # one per split, as in the paper
                 "series": [{"algorithm": "fedavg", "label": "FedAvg", "runs": ["results/.../seed1", ...]}, ...]}]}

    {"figure": "fedsmoo2023_F5", "kind": "partition", "scale": ..., "title": ..., "paper": ..., "setting": ...,
     "panels": [{"title": "Dirichlet, u = 0.6", "partition": "results/.../seed1.npz"}, ...]}

``make`` writes ``<figure>.png`` (200 dpi) and ``<figure>.pdf``; the same inputs give the same bytes.
"""
