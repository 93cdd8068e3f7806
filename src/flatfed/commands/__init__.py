"""The sub-commands, one file each: the docstring is the help, ``ARGUMENTS`` the arguments, ``run`` the work."""

#: Sub-command -> file and purpose, in the order of ``flatfed --help``.
FOR_YOU = {
    "check": ("check", "validate the configuration and count its tables and runs"),
    "plan": ("plan", "forecast runs, hours and memory before anything runs"),
    "status": ("status", "show finished, running and failed cells"),
    "verify": ("verify", "compare tables with the papers' tables"),
    "table": ("make_table", "write a table in four formats, also from a folder of runs"),
    "compare": ("compare_runs", "compare your method with baselines, seed by seed"),
    "rerun": ("rerun", "reproduce a run from its run.json and compare"),
    "describe": ("describe", "print the settings of runs, the input of `train`"),
    "new": ("new", "write a folder with an algorithm, tables, figures and a paper of your own"),
    "schema": ("schema", "write JSON schemas of the YAML files for editors"),
}
CALLED_BY_SNAKEMAKE = {
    "fetch": ("fetch_dataset", "write a dataset as memory-mappable arrays"),
    "partition": ("partition_clients", "partition a dataset among clients"),
    "train": ("train_run", "train one run"),
    "hessian": ("hessian", "estimate the Hessian at the model of a finished run"),
    "surface": ("surface", "evaluate the loss around the model of a finished run"),
    "clients": ("clients", "measure the accuracy of a finished run on the classes of each client"),
    "time": ("time_run", "measure the seconds of a round, alone on the device"),
    "cell": ("make_cell", "compute one number of a table from its runs"),
    "figure": ("make_figure", "draw a figure as PNG and PDF"),
    "report": ("make_report", "write the tables and figures of one scale as one page"),
}
COMMANDS = FOR_YOU | CALLED_BY_SNAKEMAKE
