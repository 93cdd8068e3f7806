"""What the sub-commands about the papers' numbers and their costs take, and their help."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flatfed.commands.arguments import _add, _add_config, _add_device, _add_path, _add_spec, add_weights
from flatfed.commands.kinds import count, file, folder, points


def add(commands: Any) -> None:
    """Add the sub-commands to the command line."""
    _compare(commands)
    _time(commands)
    _plan(commands)
    _published(commands)
    _results(commands)


def _compare(commands: Any) -> None:
    sub = _add(
        commands,
        "errata",
        "show where the papers contradict themselves",
        "Every entry of config/errata.yaml, with what its check finds in the printed numbers of config/reference:\n"
        "tables that disagree, errors that are not train minus test, means that are not those of their cells.",
        "python -m flatfed errata --out results/errata.html",
    )
    sub.add_argument("--out", type=file, metavar="FILE", help="write a .md or .html file instead of printing Markdown")

    sub = _add(
        commands,
        "verify",
        "hold tables against the papers'",
        "Reads the cells that `snakemake` has made and says, column by column:\n"
        "  agrees    |ours - paper's| <= max(1 point, 2 sqrt(s^2 / n + s_paper^2)): s our deviation over n seeds,\n"
        "            s_paper the printed one where it is over repeats (rounds, costs, times: a tenth of the printed\n"
        "            number in place of the point; declared costs and facts: exactly)\n"
        "  differs   it does not; missing: a run or cell is not there\n"
        "  claims    a printed number ahead of another by more than their printed spreads is a claim that one row\n"
        "            beats the other. Held: ours is ahead too, seed against seed; clearly: the 95 % interval of the\n"
        "            paired differences excludes zero (it takes two seeds at least)\n"
        "  order     Spearman's rank correlation of the rows, ours against the paper's\n"
        "At preview scale, and where a table's set-up is not the paper's, the order alone is compared.",
        "python -m flatfed verify fedsmoo2023_T1 --scale paper --strict",
    )
    sub.add_argument(
        "tables", nargs="*", metavar="TABLE", help="ids of config/tables (default: those of the configuration)"
    )
    sub.add_argument("--scale", choices=("preview", "paper"), help="the scale (default: the configuration's)")
    sub.add_argument("--point", type=points, default=1.0, metavar="P", help="percentage points allowed (default: 1.0)")
    sub.add_argument("--claims", action="store_true", help="list every claim, held ones too")
    sub.add_argument(
        "--strict",
        action="store_true",
        help="exit with status 1 unless every printed number is there and\nagrees and no claim is clearly reversed",
    )
    sub.add_argument("--json", type=file, metavar="FILE", help="write everything as JSON, too")
    _add_config(sub)


def _time(commands: Any) -> None:
    sub = _add(
        commands,
        "time",
        "measure the seconds of a round, alone on the device",
        "Trains a few rounds of a run, throws the model away and writes timing.json: seconds of a round, of its\n"
        "training and of its evaluation. Tables of wall-clock times read it and nothing else: seconds of trainings\n"
        "that ran beside others say nothing about an algorithm. Leave the machine alone meanwhile.",
        "python -m flatfed time --run run.json --dataset resources/digits --partition seed1.npz --out timing.json",
    )
    _add_spec(sub, "--run", "the run description, as `describe` prints it")
    _add_path(sub, "--dataset", "DIR", "folder that `fetch` made")
    _add_path(sub, "--partition", "NPZ", "file that `partition` made")
    add_weights(sub)
    _add_path(sub, "--out", "FILE", "file to write")
    sub.add_argument("--rounds", type=count, default=5, metavar="N", help="rounds measured (default: 5)")
    sub.add_argument("--warm-up", type=count, default=1, metavar="N", help="rounds before them (default: 1)")
    _add_device(sub)


def _plan(commands: Any) -> None:
    sub = _add(
        commands,
        "plan",
        "say what tables and figures need and what that will cost, before anything runs",
        "For each, and for all together (a run that several share counts once): runs to make and runs there;\n"
        "hours, from the seconds per round of finished runs and timings on this kind of device, scaled by the images\n"
        "a round sees where the very run was not measured; where nothing like it was, counted from its operations,\n"
        "at a speed that is named (paper scale); disk; memory. A table has the columns that config.yaml names of it,\n"
        "all where it names none, or with --all. Trains nothing without --calibrate.\n"
        "  there    finished        begun    has a checkpoint or an unfinished record, and goes on\n"
        "  stale    made from another description than the configuration's: it will be made again\n"
        "  damaged  its run.json is no record; it is named on stderr, and made again when it is deleted",
        "python -m flatfed plan fedsmoo2023_T1 fedsmoo2023_T6 --scale paper",
    )
    sub.add_argument("tables", nargs="*", metavar="TABLE|FIGURE", help="their ids (default: the configuration's)")
    sub.add_argument("--all", action="store_true", help="all tables and figures")
    sub.add_argument("--scale", choices=("preview", "paper"), help="the scale (default: the configuration's)")
    sub.add_argument("--cells", action="store_true", help="list the cells, table/column/row, instead")
    sub.add_argument("--tuning", action="store_true", help="count the runs that `snakemake tuning` makes, instead")
    sub.add_argument(
        "--calibrate",
        action="store_true",
        help="first time two rounds of one run of every kind (model, images, batch) that was never measured here",
    )
    sub.add_argument(
        "--keep-models",
        choices=("all", "needed"),
        help="count the disk of all models, or of those that an analysis reads (default: keep_models of config.yaml)",
    )
    sub.add_argument("--json", type=file, metavar="FILE", help="write the numbers as JSON, too")
    _add_config(sub)


def _results(commands: Any) -> None:
    sub = _add(
        commands,
        "results",
        "write the page of what comes out at the papers' own settings",
        "Reads folders of runs, finished or not (run.json, or run.so-far.json beside a checkpoint); trains nothing.\n"
        "Accuracies and what is counted to a target stand beside what papers print of that very setting, whatever the\n"
        "run's precision: a target is reached when it is reached, whatever the run does later. Of tables made at a\n"
        "smaller setting the page says what differs and what may be concluded. A picture lies beside it.",
        "python -m flatfed results results/published --out docs/results.md",
    )
    sub.add_argument("folders", nargs="+", type=folder, metavar="FOLDER", help="a folder that holds runs, at any depth")
    sub.add_argument("--out", type=file, required=True, metavar="FILE", help="the page, Markdown; a PNG beside it")
    _add_config(sub)


def _published(commands: Any) -> None:
    sub = _add(
        commands,
        "published",
        "make table, curves and claims again from published runs",
        "Reads a folder of runs as they are published, metrics.csv and run.json of each, in either of the layouts\n"
        "runs/SPLIT/ALGORITHM/seedK and runs/PROTOCOL/SPLIT/ALGORITHM/seedK. Nothing else is\n"
        "needed: no data, no partitions, no models, no Snakemake, no torch. Every record is held against the\n"
        "description that the configuration has of its run, and against its files where it has sums of them; all must\n"
        "have been trained on the same data and partitions. Writes the tables as .md, .csv, .tex and .html and the\n"
        "figures as .png and .pdf, and prints what `verify --claims` prints. Seeds are those that are there.",
        "python -m flatfed published results/published/cifar10-cnn --table cifar10_cnn --out again",
    )
    sub.add_argument("folder", type=Path, metavar="FOLDER", help="folder of published runs")
    each = "(default: all whose runs are all there; may be given several times)"
    sub.add_argument("--table", action="append", default=[], metavar="TABLE", help=f"table to make {each}")
    sub.add_argument("--figure", action="append", default=[], metavar="FIGURE", help=f"figure to draw {each}")
    _add_path(sub, "--out", "DIR", "folder to write")
    _add_config(sub)
