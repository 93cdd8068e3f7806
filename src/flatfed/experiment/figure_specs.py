"""What a figure draws: its panels, the runs and the files that they need."""

from __future__ import annotations

import itertools
import string
from typing import TYPE_CHECKING, Any

from flatfed.errors import ConfigError, unknown
from flatfed.experiment import analyses, compatibility, figures, measures, set_ups, tuning, words
from flatfed.experiment.model import Drawing, Figure, Run
from flatfed.papers.figure_kinds import KINDS
from flatfed.runs import wanted
from flatfed.specs import figure as specs

if TYPE_CHECKING:
    from flatfed.experiment.experiment import Experiment


def specification(experiment: Experiment, scale: str, found: Figure) -> Drawing:
    """Return what a figure draws at a scale, and what that needs."""
    document, kind = found.settings, KINDS[found.kind]
    drawn, inputs, pairs, compared = [], [], [], []
    runs: dict[str, Run] = {}
    for panel in figures.panels(document):
        shown, files, panel_runs = PANELS[found.kind](experiment, scale, document, panel)
        shows = list(dict.fromkeys((run.protocol, run.split) for run in panel_runs)) or [
            (one["protocol"], split) for one in figures.entries(panel) for split in one.get("splits") or [one["split"]]
        ]
        title = set_ups.title(experiment, scale, _title(experiment, panel), shows)
        drawn.append(specs.PANELS[found.kind](title=title, **shown))
        inputs += files
        compared += [(title, run) for run in panel_runs]
        runs |= {run.path: run for run in panel_runs}
        pairs += shows
    if found.kind == "surface":
        analyses.hold_images(experiment, compared, document.get("set"), f"config/figures/{found.id}.yaml")
    trained = kind.reads != "partitions"
    here = [
        set_ups.in_brief(experiment, scale, list(dict.fromkeys(pairs)), trained=trained),
        set_ups.same_data(experiment, scale, found, drawn),
    ]
    rows = dict.fromkeys(run.algorithm for run in runs.values())
    measured = measures.defined(experiment, scale, document)
    if found.kind == "eigenvalues":
        measured = [*measured, *words.of_hessians(experiment, scale, [run.protocol for run in runs.values()])]
    shown = _trained(experiment, scale, document) if trained else []
    listed = [runs[path] for path in specs.folders(drawn)]
    made_of = wanted.pack((run.description, run.partition) for run in listed) if runs else None
    of_curves = {}
    if found.kind == "curves":
        of_curves = {"smooth": document["smooth"][scale], "across": document.get("across", "rounds")}
    spec = specs.FigureSpec(
        figure=found.id,
        kind=found.kind,
        scale=scale,
        title=set_ups.title(experiment, scale, document["title"], pairs),
        panels=drawn,
        paper=document["paper"],
        setting="; ".join(filter(None, here)),
        caption=" ".join([*filter(None, [document.get("caption")]), *measured, *words.of_rows(experiment, rows)]),
        datasets=set_ups.datasets(experiment, scale, pairs),
        tuning=words.of_tuning(experiment, scale, shown),
        unstated=words.left_open(experiment, scale, shown, _not_shown(found)) if scale == "paper" else [],
        made_of=made_of,
        metric=document.get("metric"),
        **of_curves,
    )
    inputs += [file for run in runs.values() for file in run.files]
    inputs += made_of["partitions"] if made_of else []
    return Drawing(spec, list(dict.fromkeys(inputs)), runs, kind.reads == "analyses")


def _not_shown(found: Figure) -> set[str]:
    """Return keys of ``unstated:`` whose lines are untrue of a figure: of seeds where it has one, of what it sweeps."""
    swept = {
        key
        for panel in figures.panels(found.settings)
        for key in figures.PARAMETERS.get(panel.get("parameter", ""), (None, "", ()))[2]
    }
    return swept | ({"seeds", "spread"} if KINDS[found.kind].one_seed else set())


def _trained(experiment: Experiment, scale: str, document: dict[str, Any]) -> list[words.Trained]:
    """Return all that a figure shows at a scale."""
    found = []
    for panel in figures.panels(document):
        for one in _shown(figures.entries(panel), scale):
            for row, split in itertools.product(figures.rows(one), one.get("splits") or [one["split"]]):
                pattern = one.get("decentralised", "*")
                own = compatibility.own_split(split, row, pattern, experiment.catalog, "decentralised")
                found.append((one["protocol"], own, row, experiment.catalog.algorithms[row]["label"]))
    return found


def _title(experiment: Experiment, panel: dict[str, Any]) -> str:
    return panel["title"] if "title" in panel else ", ".join(experiment.catalog.splits[panel["split"]]["label"])


def _curves(experiment: Experiment, scale: str, document: dict[str, Any], panel: dict[str, Any]):
    """Return (panel of a curves figure, files, runs): one line a row, or one a series."""
    series, used = [], []
    for entry in _shown(figures.entries(panel), scale):
        for row in figures.rows(entry):
            runs = _runs(experiment, scale, document, entry, row)
            used += runs
            label = _label(entry, runs[0], experiment.catalog.algorithms[row]["label"])
            communications = document.get("across") == "communications"
            steps = runs[0].description["update"]["params"].get("gossip_steps", 1) if communications else 1
            series.append(specs.Line(algorithm=row, label=label, runs=[run.path for run in runs], steps=steps))
    return {"metric": panel["metric"], "series": series}, [], used


def _sweep(experiment: Experiment, scale: str, document: dict[str, Any], panel: dict[str, Any]):
    """Return (panel of a sweep, files, runs): a line a row, a point a value, a level line a row of ``levels``."""
    parameter = panel["parameter"]
    axis = figures.PARAMETERS[parameter][1]
    splits = panel.get("splits")
    points: dict[str, dict[float, specs.Point]] = {row: {} for row in panel["rows"]}
    used: list[Run] = []
    common = {key: panel[key] for key in figures.SHARED if key in panel}
    for point in _shown([{**common, **point} for point in panel["points"]], scale):
        for row, variant in zip(panel["rows"], figures.rows(point), strict=True):
            runs = [_own(experiment, run, parameter) for run in _runs(experiment, scale, document, point, variant)]
            used += runs
            values = sorted({round(_value(parameter, run), 10) for run in runs})
            where = f"config/figures: {parameter} of {variant} in {point['protocol']} ({scale} scale)"
            if len(values) > 1:
                said = ", ".join(f"{value:g}" for value in values)
                raise ConfigError(f"{where}: the runs of one point have {said}; one value is wanted, set by a variant")
            if values[0] in points[row]:
                raise ConfigError(f"{where}: two points of {row} have {values[0]:g}; each value is wanted once")
            points[row][values[0]] = specs.Point(x=values[0], **_final(runs, point.get("splits") or splits))
    labels = experiment.catalog.algorithms
    series = [
        specs.Series(algorithm=row, label=labels[row]["label"], points=[found[x] for x in sorted(found)])
        for row, found in points.items()
    ]
    levels = []
    for row in panel.get("levels", []):
        runs = _runs(experiment, scale, document, common, row)
        used += runs
        levels.append(specs.Final(algorithm=row, label=labels[row]["label"], **_final(runs, splits)))
    return {"axis": axis, "series": series, "levels": levels}, [], used


def _own(experiment: Experiment, run: Run, parameter: str) -> Run:
    """Return ``run``, a point of a sweep; of a variant that trains what its plain row does, the plain row's.

    :raises ConfigError: what is swept would be a choice of tuning, whatever value the point is meant to stand for.
    """
    ids = (run.scale, run.protocol, run.split)
    search = tuning.search(experiment, *ids, run.algorithm)
    keys = tuning.open_keys(experiment, search, run.protocol, run.algorithm) if search else []
    for key in figures.PARAMETERS[parameter][2]:
        if key in keys:
            raise ConfigError(
                f"config/figures: {run.algorithm} in {run.protocol}: {parameter} is swept, but {key} is under `tune:` "
                f"there, so that a point without a value of its own stands for whatever is chosen; give each point a "
                f"variant that sets {key}"
            )
    plain = experiment.run(*ids, run.algorithm.partition("~")[0], run.seed)
    return plain if {**run.description, "algorithm": plain.algorithm} == plain.description else run


def _bars(experiment: Experiment, scale: str, document: dict[str, Any], panel: dict[str, Any]):
    """Return (group of bars, files, runs): one bar a row."""
    bars, used = [], []
    for row in panel["rows"]:
        runs = _runs(experiment, scale, document, panel, row)
        used += runs
        label = experiment.catalog.algorithms[row]["label"]
        bars.append(specs.Final(algorithm=row, label=label, **_final(runs, None)))
    return {"bars": bars}, [], used


def _partitions(experiment: Experiment, scale: str, document: dict[str, Any], panel: dict[str, Any]):
    """Return (panel of a partition or a histogram, files, no runs)."""
    shown = []
    for entry in figures.entries(panel):
        path = experiment.places.partition(scale, entry["protocol"], entry["split"], document["seed"])
        shown.append(specs.Deal(label=entry.get("label", ""), partition=path))
    files = [deal.partition for deal in shown]
    if document["kind"] == "partition":
        return {"partition": files[0]}, files, []
    return {"partitions": shown}, files, []


def _surfaces(experiment: Experiment, scale: str, document: dict[str, Any], panel: dict[str, Any]):
    """Return (panel of surfaces, files, runs): one model or two, each by its own filters and in a file of its own.

    Where the panel has a ``frame``, both are in one file, by the filters of that row, whose model is first in it.
    """
    used, labels = [], []
    for entry in figures.entries(panel):
        seed = document.get("seed") or experiment.seeds(scale, entry["protocol"])[0]
        for row in figures.rows(entry):
            used.append(experiment.run(scale, entry["protocol"], entry["split"], row, seed))
            labels.append(entry.get("label", experiment.catalog.algorithms[row]["label"]))
    on = document.get("set")
    if "frame" in panel:
        first = next(place for place, run in enumerate(used) if run.algorithm == panel["frame"])
        path = used[first].surface(on, used[1 - first])
        files = [(path, int(place != first)) for place in range(2)]
    else:
        files = [(run.surface(on), 0) for run in used]
    shown = [
        specs.Surface(label=label, surface=path, model=model, runs=[run.path])
        for label, (path, model), run in zip(labels, files, used, strict=True)
    ]
    return {"surfaces": shown}, [path for path, _ in files], used


def _lines(experiment: Experiment, scale: str, document: dict[str, Any], panel: dict[str, Any]):
    """Return (panel of lines, files, runs): from the model of the first row or series to that of each other."""
    ends = []
    for entry in figures.entries(panel):
        seed = document.get("seed") or experiment.seeds(scale, entry["protocol"])[0]
        for row in figures.rows(entry):
            label = entry.get("label", experiment.catalog.algorithms[row]["label"])
            ends.append((label, experiment.run(scale, entry["protocol"], entry["split"], row, seed)))
    (start, run), *others = ends
    lines = [
        specs.Way(label=f"{start} to {label}", line=run.line(other), runs=[run.path, other.path])
        for label, other in others
    ]
    return {"lines": lines}, [way.line for way in lines], [run, *(other for _, other in others)]


def _eigenvalues(experiment: Experiment, scale: str, document: dict[str, Any], panel: dict[str, Any]):
    """Return (group of bars, files, runs): one bar a row."""
    bars, files, used = [], [], []
    for row in panel["rows"]:
        runs = _runs(experiment, scale, document, panel, row)
        paths = [run.hessian for run in runs]
        files += paths
        used += runs
        label = experiment.catalog.algorithms[row]["label"]
        bars.append(specs.HessianBar(algorithm=row, label=label, hessians=paths, runs=[run.path for run in runs]))
    return {"bars": bars}, files, used


#: Kind -> function that returns (panel for the specification, files that it needs, runs that it shows).
PANELS = {
    "eigenvalues": _eigenvalues,
    "surface": _surfaces,
    "line": _lines,
    "curves": _curves,
    "sweep": _sweep,
    "bars": _bars,
    "partition": _partitions,
    "histogram": _partitions,
}


def _label(entry: dict[str, Any], run: Run, usual: str) -> str:
    """Return a line's label; a parameter in braces, as in ``K = {local_epochs:g}``, is that of the run itself."""
    if "label" not in entry:
        return usual
    wanted = [name for _, name, _, _ in string.Formatter().parse(entry["label"]) if name]
    return entry["label"].format(**{name: _value(name, run) for name in wanted})


def _value(parameter: str, run: Run) -> float:
    """Return what a run has of a parameter that figures show; ConfigError where its algorithm has none of that name."""
    try:
        return figures.PARAMETERS[parameter][0](run.description)
    except KeyError:
        known = [*run.description["update"]["params"], "local_epochs", "learning_rate_decay", "clients"]
        where = f"config/figures: {run.algorithm} in {run.protocol}"
        raise ConfigError(unknown("parameter", parameter, known, where)) from None


def _shown(entries: list[dict[str, Any]], scale: str) -> list[dict[str, Any]]:
    """Return the entries that a scale shows; ``preview: false`` leaves one to the paper scale."""
    return [entry for entry in entries if scale == "paper" or entry.get("preview", True)]


def _runs(experiment: Experiment, scale: str, document: dict[str, Any], entry: dict[str, Any], row: str) -> list[Run]:
    """Return the runs of ``row``, seed by seed, those of a seed's several splits together."""
    pattern = entry.get("decentralised", "*")
    splits = [
        compatibility.own_split(split, row, pattern, experiment.catalog, "decentralised")
        for split in entry.get("splits") or [entry["split"]]
    ]
    seeds = experiment.seeds(scale, entry["protocol"], document.get("seeds"))
    return [experiment.run(scale, entry["protocol"], split, row, seed) for seed in seeds for split in splits]


def _final(runs: list[Run], splits: list[str] | None) -> dict[str, Any]:
    """Return what a figure needs for a final number: the rounds of a finished run, and a list of folders per seed."""
    each = len(splits or [None])
    paths = [run.path for run in runs]
    return {
        "rounds": runs[0].description["rounds"],
        "runs": [paths[place : place + each] for place in range(0, len(paths), each)],
    }
