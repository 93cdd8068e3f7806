"""The sub-commands, a file each: ``DETAIL`` and ``EXAMPLE`` for its help, ``add`` for its arguments, and ``run``.

Only the file of the sub-command that is called is imported.
"""

#: Sub-command -> its file, and what it does, in the order of ``flatfed --help``.
COMMANDS = {
    "fetch": ("fetch_dataset", "bring a data set into memory-mappable arrays"),
    "partition": ("deal_clients", "deal a data set to clients"),
    "weights": ("bring_weights", "bring pre-trained weights into a file of plain tensors"),
    "train": ("train_runs", "train one run, or several seeds of one together"),
    "choose": ("choose", "choose among the values that a paper tuned, by accuracy on a validation part"),
    "hessian": ("hessian", "estimate the Hessian at the model of a finished run"),
    "surface": ("surface", "evaluate the loss around the model of a finished run"),
    "cell": ("make_cell", "compute one number of a table from its runs"),
    "table": ("make_table", "write a table as CSV, Markdown, LaTeX and HTML, also from a folder of runs"),
    "figure": ("make_figure", "draw a figure as PNG and PDF"),
    "report": ("make_report", "bind the tables and figures of one scale into one page"),
    "specify": ("specify", "write what a report holds"),
    "describe": ("describe", "print the description of runs: all that a training takes"),
    "import": ("import_runs", "accept runs that were made elsewhere"),
    "check": ("check", "validate the whole configuration and say what it asks for"),
    "rerun": ("rerun", "make a run again from its run.json and compare"),
    "errata": ("errata", "show where the papers contradict themselves"),
    "verify": ("verify", "hold tables against the papers'"),
    "time": ("time_run", "measure the seconds of a round, alone on the device"),
    "plan": ("plan", "say what tables and figures need and what that will cost, before anything runs"),
    "status": ("status", "show which cells are done, running or failed, and the hours left"),
}
