"""``python -m flatfed``: one sub-command for each step of the workflow, so that each can be run, and tried, by hand.

Nothing heavy is imported before a sub-command needs it: a cell is a process of its own and should start in no time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Callable, Sequence

from flatfed.commands.arguments import parser
from flatfed.engine.job.interruption import Stopped
from flatfed.errors import REMEDIES, WITHOUT_A_NAME, DataError, FlatFedError, described

#: Exit status of a command that stopped for a reason the user can mend, of one that the user interrupted, and of one
#: whose reader has seen enough (``| head``): the last two as a shell gives them.
REFUSED, INTERRUPTED, UNREAD = 2, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one sub-command; return its exit status. A FlatFedError is printed as one message, without a trace."""
    try:
        try:
            return _run(parser().parse_args(arguments))
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # here, not at the interpreter's end, where a pipe that is gone cannot be caught
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())
        return UNREAD


def _run(options: argparse.Namespace) -> int:
    try:
        _own_algorithms()
        return COMMANDS[options.command](options) or 0
    except FlatFedError as error:
        print(f"flatfed {options.command}: {error}", file=sys.stderr)
        return REFUSED
    except OSError as error:
        if error.errno not in REMEDIES or (error.filename is None and error.errno not in WITHOUT_A_NAME):
            raise  # of these, main knows the pipe that nobody reads
        print(f"flatfed {options.command}: {described(error)}", file=sys.stderr)
        return REFUSED
    except Stopped as stopped:
        return stopped.status
    except KeyboardInterrupt:
        print(f"flatfed {options.command}: interrupted", file=sys.stderr)
        return INTERRUPTED


def _own_algorithms() -> None:
    """Make the user's own algorithms known: the workflow names their folders in an environment variable."""
    from flatfed import algorithms

    folders = os.environ.get(algorithms.VARIABLE, "").split(os.pathsep)
    algorithms.look_in(filter(None, folders), f"environment variable {algorithms.VARIABLE}")


def fetch(options: argparse.Namespace) -> None:
    from flatfed.data import sources

    sources.fetch(options.spec, options.out)


def partition(options: argparse.Namespace) -> None:
    from flatfed.data import partition as partitions

    partitions.make(options.spec, options.dataset, options.out)


def weights(options: argparse.Namespace) -> None:
    from flatfed.models import pretrained

    pretrained.make(options.name, options.out, options.checkpoint)


def train(options: argparse.Namespace) -> None:
    from flatfed import algorithms, gpus, models
    from flatfed.runs import description, lock, provenance

    runs, partitions, outs = options.run, options.partition, options.out
    if not len(runs) == len(partitions) == len(outs):
        counts = f"{len(runs)} of --run, {len(partitions)} of --partition and {len(outs)} of --out"
        raise DataError(f"every run has a partition and a folder of its own, but there are {counts}")
    for place, run in enumerate(runs):
        description.checked(run, f"--run{f'[{place}]' if len(runs) > 1 else ''}")
    algorithms.load(runs[0]["update"]["name"])
    models.card(runs[0]["model"]["name"])
    common = {"threads": options.threads, "weights": options.weights, "code_digest": provenance.run_digest(runs[0])}
    common["device"] = gpus.demanded(options.device)
    with contextlib.ExitStack() as held:
        for out in outs:
            held.enter_context(lock.held(out))
        if common["device"] == "cuda":
            held.enter_context(gpus.claimed())
        from flatfed.engine.job.together import train_together
        from flatfed.engine.job.train import train as train_one

        if len(runs) == 1:
            train_one(runs[0], options.dataset, partitions[0], outs[0], **common)
        else:
            train_together(runs, options.dataset, partitions, outs, **common)


def evaluate(options: argparse.Namespace) -> None:
    from flatfed.commands import run_record

    run_record.read(options.run / "run.json")
    from flatfed.engine.job.scores import evaluate as evaluated

    place = {"device": options.device, "threads": options.threads}
    scores = evaluated(options.run, options.dataset, options.partition, **place)
    print(json.dumps(scores, indent=1))


def choose(options: argparse.Namespace) -> None:
    from flatfed import forms
    from flatfed.commands import choose as choices
    from flatfed.commands import specifications
    from flatfed.runs.choice import Choice

    choices.choose(forms.read(Choice, specifications.checked(options.spec, "choose"), "--spec"), options.out)


def hessian(options: argparse.Namespace) -> None:
    from flatfed.commands import hessian as hessians

    hessians.hessian(options)


def surface(options: argparse.Namespace) -> None:
    from flatfed.commands import surface as surfaces

    surfaces.surface(options)


def cell(options: argparse.Namespace) -> None:
    from flatfed.commands import specifications
    from flatfed.tables import cells

    cells.make(specifications.checked(options.spec, "cell"), options.out)


def table(options: argparse.Namespace) -> None:
    from flatfed.commands import specifications
    from flatfed.tables import write

    write.make(specifications.checked(options.spec, "table"), options.out_dir)


def figure(options: argparse.Namespace) -> None:
    from flatfed.commands import specifications

    specifications.checked(options.spec, "figure")
    from flatfed import figures

    figures.make(options.spec, options.out_dir)


def specify(options: argparse.Namespace) -> None:
    from flatfed.commands import specify as specified

    folders = {"results": options.results, "resources": options.resources}
    specified.specify(options.configuration, options.scale, **folders, out=options.out)


def report(options: argparse.Namespace) -> None:
    from flatfed.commands import specifications

    specifications.checked(options.spec, "report")
    from flatfed.tables import report as reports

    reports.make(options.spec, options.out)


def describe(options: argparse.Namespace) -> None:
    from flatfed.commands import describe as descriptions

    descriptions.describe(options.folders, options.config, script=options.script)


def import_runs(options: argparse.Namespace) -> None:
    from flatfed.commands import import_runs as imports

    imports.accept(options.folders, options.config, over=options.replace, other_code=options.other_code)


def check(options: argparse.Namespace) -> None:
    from flatfed.commands import check as checks

    checks.check(options.config)


def errata(options: argparse.Namespace) -> None:
    from flatfed.commands import errata as pages

    pages.write(options.out)


def gallery(options: argparse.Namespace) -> None:
    from flatfed.figures import gallery as page

    page.make(options.folder, options.out, options.head)


def verify(options: argparse.Namespace) -> int:
    from flatfed.commands import verify as verification

    return verification.report(
        options.tables,
        options.config,
        scale=options.scale,
        point=options.point,
        every=options.claims,
        strict=options.strict,
        out=options.json,
    )


def time(options: argparse.Namespace) -> None:
    from flatfed.commands import time_run
    from flatfed.runs import description

    description.checked(options.run, "--run")
    time_run.write(
        options.run,
        options.dataset,
        options.partition,
        options.out,
        rounds=options.rounds,
        warm_up=options.warm_up,
        device=options.device,
        threads=options.threads,
        weights=options.weights,
    )


def plan(options: argparse.Namespace) -> None:
    from flatfed.commands import plan as plans

    plans.plan(
        options.tables,
        options.config,
        scale=options.scale,
        every=options.all,
        cells=options.cells,
        tuned=options.tuning,
        calibrate=options.calibrate,
        keep_models=options.keep_models,
        out=options.json,
    )


def rerun(options: argparse.Namespace) -> int:
    from flatfed import gpus
    from flatfed.commands import rerun as again

    with gpus.claimed() if options.device != "cpu" else contextlib.nullcontext():
        return again.rerun(options)


def published(options: argparse.Namespace) -> None:
    from flatfed.commands import published as publications

    publications.published(options)


def results(options: argparse.Namespace) -> None:
    from flatfed.commands import results as pages

    pages.results(options)


def status(options: argparse.Namespace) -> None:
    from flatfed.commands import status as states

    states.status(options)


COMMANDS: dict[str, Callable[[argparse.Namespace], int | None]] = {
    **{"fetch": fetch, "partition": partition, "weights": weights, "train": train, "evaluate": evaluate},
    **{"choose": choose, "hessian": hessian, "surface": surface, "cell": cell, "table": table},
    **{"figure": figure, "specify": specify, "report": report, "describe": describe},
    **{"import": import_runs, "check": check, "errata": errata, "gallery": gallery, "verify": verify},
    **{"time": time, "plan": plan, "rerun": rerun, "published": published, "results": results, "status": status},
}
