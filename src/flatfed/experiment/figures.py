"""Figures: from the YAML that says what the paper's figure shows to panels, runs and files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flatfed.errors import ConfigError, unknown
from flatfed.experiment import analyses, fit, words
from flatfed.experiment.catalog import Catalog
from flatfed.experiment.model import Figure, Run

if TYPE_CHECKING:
    from flatfed.experiment.experiment import Experiment

#: Kind -> the keys of a figure that it needs, and those it takes beside them and beside the common ones.
KINDS = {
    "curves": (("metric", "smooth"), ("protocol", "splits", "panels", "rows", "seeds", "across")),
    "sweep": (("metric", "panels"), ("protocol", "rows", "seeds")),
    "bars": (("metric", "protocol", "splits", "rows"), ("seeds",)),
    "partition": (("seed",), ("protocol", "splits", "panels")),
    "histogram": (("seed", "panels"), ("protocol",)),
    "surface": (("panels",), ("protocol", "seed", "metric")),
    "eigenvalues": (("panels",), ("protocol", "rows", "seeds")),
}
COMMON = ("kind", "title", "paper", "caption")

#: Kinds that need what no rule makes: they are declared, counted as missing, and not drawn.
MISSING = {
    "eigenvalues": "eigenvalues of the Hessian",
}

#: Measures of curves that a run has where its protocol has a ``probe``, in run.json.
PROBES = ("perturbation_drift", "sharpness", "m_sharpness")

#: Columns of metrics.csv that figures show.
COLUMNS = (
    *("test_accuracy", "train_accuracy", "client_train_accuracy", "client_test_accuracy"),
    *("test_loss", "train_loss", "consistency"),
)

#: Kind -> the metrics it can show.
METRICS = {
    "curves": (*COLUMNS, *PROBES),
    "sweep": COLUMNS,
    "bars": COLUMNS,
    "surface": ("loss", "accuracy"),
}

#: What a sweep can vary -> (its value in a run's description, the axis).
PARAMETERS: dict[str, tuple[Callable[[dict[str, Any]], float], str]] = {
    "active_clients": (
        lambda about: about["partition"]["clients"] * about["sampling"]["fraction"],
        "Clients active in a round (expected)",
    ),
    "clients": (lambda about: about["partition"]["clients"], "Clients"),
    "local_epochs": (lambda about: about["local_epochs"], "Local epochs $K$ of a round"),
    "learning_rate_decay": (lambda about: about["learning_rate_decay"], "Learning rate's decay per round"),
    "rho": (lambda about: about["update"]["params"]["rho"], r"Perturbation radius $\rho$"),
    "alpha": (lambda about: about["update"]["params"]["alpha"], r"Weight $\beta$ of the fresh gradient"),
    "beta": (lambda about: 1 / about["update"]["params"]["penalty"], r"Penalised coefficient $\beta$"),
    "rho_per_learning_rate": (
        lambda about: about["update"]["params"]["rho"] / about["learning_rate"],
        r"$\rho / \eta_l$",
    ),
}


def figure(name: str, document: dict[str, Any], catalog: Catalog) -> Figure:
    """Return the figure declared in config/figures/<name>.yaml; ConfigError for what does not exist."""
    where = f"config/figures/{name}.yaml"
    kind = document["kind"]
    needed, optional = KINDS[kind]
    for key in needed:
        if key not in document:
            raise ConfigError(f"{where}: key {key!r} is missing; kind {kind} needs {', '.join(needed)}")
    for key in document:
        if key not in (*COMMON, *needed, *optional):
            raise ConfigError(unknown("key", key, (*COMMON, *needed, *optional), f"{where} (kind {kind})"))
    for metric in [entry["metric"] for entry in (document, *panels(document)) if "metric" in entry]:
        if metric not in METRICS.get(kind, ()):
            raise ConfigError(unknown("metric", metric, METRICS.get(kind, ()), f"{where}: metric (kind {kind})"))
    for place, row in enumerate(document.get("rows", [])):
        if row not in catalog.algorithms:
            raise ConfigError(unknown("algorithm", row, catalog.algorithms, f"{where}: rows[{place}]"))
    for split in document.get("splits", []):
        if split not in catalog.splits:
            raise ConfigError(unknown("split", split, catalog.splits, f"{where}: splits"))
    for place, panel in enumerate(panels(document)):
        at = f"{where}: panels[{place}]" if "panels" in document else where
        _check_panel(panel, document, catalog, at)
    return Figure(name, kind, document)


def panels(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the panels of a figure, each with all that holds for it: one a split where the figure lists splits."""
    common = {key: document[key] for key in ("protocol", "rows", "metric") if key in document}
    own = document.get("panels") or [{"split": split} for split in document["splits"]]
    return [{**common, **panel} for panel in own]


def _check_panel(panel: dict[str, Any], document: dict[str, Any], catalog: Catalog, where: str) -> None:
    if panel.get("parameter", "rho") not in PARAMETERS:
        raise ConfigError(unknown("parameter", panel["parameter"], PARAMETERS, f"{where}: parameter"))
    trained = document["kind"] not in ("partition", "histogram")
    for one in _entries(panel):
        for key in ("protocol",):
            if key not in one:
                raise ConfigError(f"{where}: key {key!r} is missing; an id of config/{key}s")
        protocol = fit.protocol_of(one["protocol"], catalog, where)
        if panel.get("metric") in PROBES and "probe" not in protocol.scales["paper"]:
            raise ConfigError(f"{where}: metric {panel['metric']!r} needs a probe, which {protocol.id} does not have")
        splits = one.get("splits") or ([one["split"]] if "split" in one else [])
        if not splits:
            raise ConfigError(f"{where}: key 'split' is missing; an id of config/splits.yaml")
        for split in splits:
            if split not in catalog.splits:
                raise ConfigError(unknown("split", split, catalog.splits, f"{where}: split"))
            fit.check(protocol, split, catalog, where)
            for row in _rows(one) if trained else ():
                if row not in catalog.algorithms:
                    raise ConfigError(unknown("algorithm", row, catalog.algorithms, f"{where}: rows"))
                fit.check_pair(protocol.id, split, row, catalog, where)


def _entries(panel: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a panel's series, points or partitions, each with the panel's own protocol, split and rows."""
    common = {key: panel[key] for key in ("protocol", "split", "splits", "rows") if key in panel}
    parts = panel.get("series") or panel.get("points") or panel.get("partitions") or [{}]
    entries = [{**common, **part} for part in parts]
    return [*entries, {**common, "rows": panel["levels"]}] if "levels" in panel else entries


def _rows(entry: dict[str, Any]) -> list[str]:
    """Return the ids of the algorithms of a series or a point; a point's ``variant`` is a label added to each."""
    rows = [entry["row"]] if "row" in entry else entry.get("rows", [])
    return [f"{row}~{entry['variant']}" if "variant" in entry else row for row in rows]


def specification(experiment: Experiment, scale: str, found: Figure) -> dict[str, Any]:
    """Return {"kind", "inputs": paths, "runs": run folders, "spec": what ``flatfed figure`` takes}.

    :raises ConfigError: the figure needs what nothing makes.
    """
    if found.kind in MISSING:
        raise ConfigError(
            f"config/figures/{found.id}.yaml: kind {found.kind} is declared and counted as missing; it needs "
            f"{MISSING[found.kind]}, which no rule makes"
        )
    document = found.settings
    drawn, inputs, runs, pairs = [], [], {}, []
    for panel in panels(document):
        shown, files, panel_runs = _DRAWN[found.kind](experiment, scale, document, panel)
        drawn.append({"title": _title(experiment, panel), **shown})
        inputs += files
        runs |= {run.path: run for run in panel_runs}
        pairs += [(one["protocol"], split) for one in _entries(panel) for split in one.get("splits") or [one["split"]]]
    trained = found.kind not in ("partition", "histogram")
    spec = {
        **{"figure": found.id, "kind": found.kind, "scale": scale},
        **{key: document[key] for key in ("title", "paper")},
        "setting": words.setting(experiment, scale, list(dict.fromkeys(pairs)), trained=trained),
        "panels": drawn,
    }
    if "metric" in document:
        spec["metric"] = document["metric"]
    if found.kind == "curves":
        spec |= {"smooth": document["smooth"][scale], "across": document.get("across", "rounds")}
    probed = any(panel.get("metric") in PROBES for panel in panels(document))
    names = ("metrics.csv",) if found.kind == "curves" and not probed else ("metrics.csv", "run.json")
    inputs += [f"{path}/{name}" for path in runs for name in names]
    return {"kind": found.kind, "inputs": list(dict.fromkeys(inputs)), "runs": list(runs), "spec": spec}


def _title(experiment: Experiment, panel: dict[str, Any]) -> str:
    return panel["title"] if "title" in panel else ", ".join(experiment.catalog.splits[panel["split"]]["label"])


def _curves(experiment: Experiment, scale: str, document: dict[str, Any], panel: dict[str, Any]):
    """Return (panel of a curves figure, files, runs): one line a row, or one a series."""
    series, used = [], []
    for entry in _shown(_entries(panel), scale):
        for row in _rows(entry):
            runs = _runs(experiment, scale, document, entry, row)
            used += runs
            line = {
                "algorithm": row,
                "label": entry.get("label", experiment.catalog.algorithms[row]["label"]),
                "runs": [run.path for run in runs],
            }
            if document.get("across") == "communications":
                line["steps"] = runs[0].description["update"]["params"].get("gossip_steps", 1)
            series.append(line)
    return {"metric": panel["metric"], "series": series}, [], used


def _sweep(experiment: Experiment, scale: str, document: dict[str, Any], panel: dict[str, Any]):
    """Return (panel of a sweep, files, runs): a line a row, a point a value, a level line a row of ``levels``."""
    function, axis = PARAMETERS[panel["parameter"]]
    splits = panel.get("splits")
    points: dict[str, list[dict[str, Any]]] = {row: [] for row in panel["rows"]}
    used: list[Run] = []
    common = {key: panel[key] for key in ("protocol", "split", "splits", "rows") if key in panel}
    for point in _shown([{**common, **point} for point in panel["points"]], scale):
        for row, variant in zip(panel["rows"], _rows(point), strict=True):
            runs = _runs(experiment, scale, document, point, variant)
            used += runs
            value = round(function(runs[0].description), 10)
            points[row].append({"x": value, **_final(runs, point.get("splits") or splits)})
    labels = experiment.catalog.algorithms
    series = [
        {"algorithm": row, "label": labels[row]["label"], "points": sorted(found, key=lambda point: point["x"])}
        for row, found in points.items()
    ]
    levels = []
    for row in panel.get("levels", []):
        runs = _runs(experiment, scale, document, common, row)
        used += runs
        levels.append({"algorithm": row, "label": labels[row]["label"], **_final(runs, splits)})
    return {"axis": axis, "log": panel.get("log", False), "series": series, "levels": levels}, [], used


def _bars(experiment: Experiment, scale: str, document: dict[str, Any], panel: dict[str, Any]):
    """Return (group of bars, files, runs): one bar a row."""
    bars, used = [], []
    for row in panel["rows"]:
        runs = _runs(experiment, scale, document, panel, row)
        used += runs
        label = experiment.catalog.algorithms[row]["label"]
        rounds = runs[0].description["rounds"]
        bars.append({"algorithm": row, "label": label, "rounds": rounds, "runs": [run.path for run in runs]})
    return {"bars": bars}, [], used


def _partitions(experiment: Experiment, scale: str, document: dict[str, Any], panel: dict[str, Any]):
    """Return (panel of a partition or a histogram, files, no runs)."""
    shown = []
    for entry in _entries(panel):
        path = experiment.partition_path(scale, entry["protocol"], entry["split"], document["seed"])
        shown.append({"label": entry.get("label", ""), "partition": path})
    files = [entry["partition"] for entry in shown]
    if document["kind"] == "partition":
        return {"partition": files[0]}, files, []
    return {"partitions": shown}, files, []


def _surfaces(experiment: Experiment, scale: str, document: dict[str, Any], panel: dict[str, Any]):
    """Return (panel of surfaces, files, runs): one model, or two in one frame scaled to the first's filters."""
    used, labels = [], []
    for entry in _entries(panel):
        seed = document.get("seed") or experiment.seeds(scale, entry["protocol"])[0]
        for row in _rows(entry):
            used.append(experiment.run(scale, entry["protocol"], entry["split"], row, seed))
            labels.append(entry.get("label", experiment.catalog.algorithms[row]["label"]))
    path = analyses.surface_path(used[0], experiment.results, *used[1:])
    shown = [{"label": label, "surface": path, "model": place} for place, label in enumerate(labels)]
    return {"surfaces": shown}, [path], []


_DRAWN = {
    "surface": _surfaces,
    "curves": _curves,
    "sweep": _sweep,
    "bars": _bars,
    "partition": _partitions,
    "histogram": _partitions,
}


def _shown(entries: list[dict[str, Any]], scale: str) -> list[dict[str, Any]]:
    """Return the entries that a scale shows; ``preview: false`` leaves one to the paper scale."""
    return [entry for entry in entries if scale == "paper" or entry.get("preview", True)]


def _runs(experiment: Experiment, scale: str, document: dict[str, Any], entry: dict[str, Any], row: str) -> list[Run]:
    """Return the runs of ``row``, seed by seed, those of a seed's several splits together."""
    splits = entry.get("splits") or [entry["split"]]
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
