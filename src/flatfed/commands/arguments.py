"""What the sub-commands take, and their help: each page says what is made, from what, and shows a call that works."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from flatfed.commands.kinds import CONFIG, Parser, count, file, folder, json_or_file, picture, setting

RUN = "results/preview/runs/fedsmoo-cifar10/dir0.6-100/fedsmoo/seed1"
PARTITION = "results/preview/partitions/fedsmoo-cifar10/dir0.6-100/seed1.npz"
DIGITS = '{"name": "digits", "classes": 10, "shape": [1, 8, 8], "source": {"source": "sklearn", "test": 500}}'
DEAL = (
    '{"seed": 1, "dataset": "digits", "classes": 10, "scheme": "dirichlet", "alpha": 0.6,'
    ' "replacement": true, "clients": 30}'
)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line; building it takes milliseconds."""
    # Their modules are written with what stands below.
    from flatfed.commands import choose, compare_arguments, hessian, rerun, status, surface

    top = Parser(
        prog="flatfed",
        description="The steps of the FlatFed workflow. `snakemake --cores all` calls them in order;\n"
        "each can be called by hand.",
        epilog="`flatfed COMMAND --help` explains a command and shows an example. Without the command on the path:\n"
        "`PYTHONPATH=src python -m flatfed`.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _data(commands)
    _runs(commands)
    choose.add(commands)
    hessian.add(commands)
    surface.add(commands)
    _pages(commands)
    _elsewhere(commands)
    rerun.add(commands)
    compare_arguments.add(commands)
    status.add(commands)
    return top


def _add(commands: Any, name: str, does: str, detail: str, example: str) -> argparse.ArgumentParser:
    """Add the sub-command ``name`` with its page of help."""
    return commands.add_parser(
        name,
        help=does,
        description=f"{does[0].upper()}{does[1:]}.\n\n{detail}",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _add_path(sub: argparse.ArgumentParser, option: str, metavar: str, meaning: str) -> None:
    kind = {"DIR": folder, "FOLDER|FILE": Path}.get(metavar, file)
    sub.add_argument(option, type=kind, required=True, metavar=metavar, help=meaning)


def _add_spec(sub: argparse.ArgumentParser, option: str, meaning: str) -> None:
    sub.add_argument(option, type=json_or_file, required=True, metavar="JSON", help=f"{meaning}: JSON, or a file of it")


def add_weights(sub: argparse.ArgumentParser) -> None:
    """Add ``--weights``: it may stand without a file, as the workflow's command lines have it where there is none."""
    meaning = "file of the pre-trained weights that the run names (`flatfed weights` makes it)"
    sub.add_argument("--weights", type=file, nargs="?", metavar="FILE", help=meaning)


def _add_config(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        CONFIG,
        action="append",
        type=setting,
        metavar="FILE|KEY=VALUE",
        help="the configuration (default: config/config.yaml), or values in place of its own, as Snakemake takes them",
    )


def _add_device(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: a GPU if there is one")
    sub.add_argument("--threads", type=count, default=1, metavar="N", help="CPU threads of torch (default: 1)")


def _data(commands: Any) -> None:
    sub = _add(
        commands,
        "fetch",
        "bring a data set into memory-mappable arrays",
        "Writes images.npy (N, C, H, W; uint8), labels.npy and dataset.json, which holds their digest. Sources:\n"
        "sklearn (the embedded digits), torchvision (downloads and checks the sum), npz (MedMNIST's layout)\n"
        "and imagefolder.",
        f"python -m flatfed fetch --out resources/digits --spec '{DIGITS}'",
    )
    _add_spec(sub, "--spec", "what to bring")
    _add_path(sub, "--out", "DIR", "folder to write")

    sub = _add(
        commands,
        "partition",
        "deal a data set to clients",
        "Writes each client's training indices, the test indices and the class counts.\n"
        "Schemes: iid, dirichlet, pathological, shards, domain, central.",
        f"python -m flatfed partition --dataset resources/digits --out clients.npz --spec '{DEAL}'",
    )
    _add_spec(sub, "--spec", "how to deal")
    _add_path(sub, "--dataset", "DIR", "folder that `fetch` made")
    _add_path(sub, "--out", "NPZ", "file to write")

    sub = _add(
        commands,
        "weights",
        "bring pre-trained weights into a file of plain tensors",
        "Writes a safetensors file of float32 tensors named as torchvision's. Known: vit_b32-imagenet.",
        "python -m flatfed weights --name vit_b32-imagenet --out resources/weights/vit_b32-imagenet.safetensors",
    )
    sub.add_argument("--name", required=True, help="which weights")
    sub.add_argument("--checkpoint", type=file, metavar="FILE", help="torchvision's file (default: downloaded)")
    _add_path(sub, "--out", "FILE", "file to write")


def _runs(commands: Any) -> None:
    sub = _add(
        commands,
        "train",
        "train one run, or several seeds of one together",
        "Writes metrics.csv, model.safetensors and, last, run.json. A training that was stopped goes on from its\n"
        "checkpoint in the output folder when it is called again. Needs torch, numpy and safetensors; no Snakemake,\n"
        "no configuration.",
        f"RUN={RUN}\n  python -m flatfed describe $RUN > run.json\n"
        f"  python -m flatfed train --run run.json --dataset resources/digits \\\n"
        f"    --partition {PARTITION} --out $RUN",
    )
    several = {"nargs": "+", "required": True}
    said = "the run description, as `describe` prints it: JSON, or a file of it; several that differ in their seed "
    sub.add_argument("--run", type=json_or_file, metavar="JSON", help=f"{said}alone train together", **several)
    _add_path(sub, "--dataset", "DIR", "folder that `fetch` made")
    sub.add_argument("--partition", type=file, metavar="NPZ", help="file that `partition` made, one a run", **several)
    add_weights(sub)
    sub.add_argument("--out", type=folder, metavar="DIR", help="run folder to write, one a run", **several)
    _add_device(sub)

    sub = _add(
        commands,
        "evaluate",
        "test the model of a finished run again",
        "Prints test loss and test accuracy, computed anew from model.safetensors.",
        f"python -m flatfed evaluate {RUN} \\\n    --dataset resources/digits --partition {PARTITION}",
    )
    sub.add_argument("run", type=folder, metavar="RUN_FOLDER", help="a finished run")
    _add_path(sub, "--dataset", "DIR", "folder that `fetch` made")
    _add_path(sub, "--partition", "NPZ", "file that `partition` made")
    _add_device(sub)


def _pages(commands: Any) -> None:
    for name, does, option, metavar, meaning in (
        ("cell", "compute one number of a table from its runs", "--out", "FILE", "file to write"),
        ("table", "write a table as CSV, Markdown, LaTeX and HTML", "--out-dir", "DIR", "folder to write into"),
        ("figure", "draw a figure as PNG and PDF", "--out-dir", "DIR", "folder to write into"),
        ("report", "bind the tables and figures of one scale into one page", "--out", "FILE", "file to write"),
    ):
        sub = _add(
            commands,
            name,
            does,
            f"Snakemake passes the specification: `snakemake -n -p --forcerun {name}` prints every call, to be copied.",
            f"python -m flatfed {name} --spec {name}.json {option} {'out' if metavar == 'DIR' else name + '.out'}",
        )
        _add_spec(sub, "--spec", "what to make")
        _add_path(sub, option, metavar, meaning)

    sub = _add(
        commands,
        "specify",
        "write what a report holds",
        "The specification that `report` takes: with every table it is longer than a shell's argument may be.",
        """python -m flatfed specify --scale preview --out report.json \\
    --configuration '{"scale": "preview", "tables": ["fedsmoo2023_T1"], "figures": []}'""",
    )
    _add_spec(sub, "--configuration", "the content of config.yaml, as merged with the command line")
    sub.add_argument("--scale", choices=("preview", "paper"), required=True, help="the scale")
    sub.add_argument("--results", default="results", metavar="DIR", help="folder of results (default: results)")
    sub.add_argument("--resources", default="resources", metavar="DIR", help="folder of data (default: resources)")
    _add_path(sub, "--out", "FILE", "file to write")

    sub = _add(
        commands,
        "gallery",
        "put all figures of a folder on one picture",
        "Each figure stands under its name. `make figures-page` calls it for docs/figures.png.",
        "python -m flatfed gallery results/preview/figures --out figures.png",
    )
    sub.add_argument("folder", type=folder, metavar="DIR", help="folder of figures")
    sub.add_argument("--head", default="", metavar="TEXT", help="a line above all of them")
    sub.add_argument("--out", type=picture, required=True, metavar="FILE", help="PNG to write")


def _elsewhere(commands: Any) -> None:
    sub = _add(
        commands,
        "describe",
        "print the description of runs: all that a training takes",
        "One line of JSON for each run folder. The folder need not exist: its path says which run is meant.\n"
        "With --script, prints a shell script instead, which makes data, partitions and runs in a copy of FlatFed\n"
        "on a machine that has torch but no Snakemake; `import` takes the runs back.",
        f"python -m flatfed describe --script {RUN} > runs.sh",
    )
    path = "results/SCALE/runs/PROTOCOL/SPLIT/ALGORITHM/seedK"
    sub.add_argument("folders", nargs="+", metavar="RUN_FOLDER", help=path)
    sub.add_argument("--script", action="store_true", help="print a shell script that makes the runs")
    _add_config(sub)

    sub = _add(
        commands,
        "import",
        "accept runs that were made elsewhere",
        "Checks that each run is finished and was made from the description, data, partition and code that the\n"
        "configuration asks for here, then moves its folder into results/, where Snakemake finds it done. Nothing\n"
        "is moved unless every run passes.\n"
        "A run that is there already is counted and left alone. One in whose place another stands is named and left\n"
        "where it is; the others are moved, and the exit status is 2. A run without its model, as runs are published,\n"
        "is copied: tables and curves can be made of it, and Snakemake trains it again only for an analysis.\n"
        "`published` reads such runs in place, without their data.",
        "python -m flatfed import from-gpu-host/results/preview/runs",
    )
    sub.add_argument("folders", nargs="+", type=folder, metavar="FOLDER", help="a run folder, or one that holds some")
    sub.add_argument("--replace", action="store_true", help="put them in place of runs that are already there")
    sub.add_argument(
        "--other-code",
        action="store_true",
        help="accept runs that other source code trained; parameters it did not have yet count as their defaults and "
        "are written to run.json",
    )
    _add_config(sub)

    sub = _add(
        commands,
        "check",
        "validate the whole configuration and say what it asks for",
        "Reads every file under config/ and stops at the first mistake, naming file, key and value, or counts what\n"
        "would be made.",
        "python -m flatfed check --config config/config.yaml",
    )
    _add_config(sub)
