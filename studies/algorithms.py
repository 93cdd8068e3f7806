"""Write docs/algorithms: one page per algorithm with its formula, costs, choices, checks and results.

    python studies/algorithms.py

Reads the algorithms' files, config/reference and results/published.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from jinja2 import Template

from effects import choice_effects
from flatfed import algorithms, plan
from flatfed.algorithms import Choice
from flatfed.algorithms.as_published import FORMS
from flatfed.plan.reference import FLAG
from flatfed.runs.paths import without_label
from flatfed.tables.report import flatten
from published import read_csv
from results import Results

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests/oracle"))
from claims import CLAIMS  # noqa: E402

PAGES = ROOT / "docs/algorithms"
METRICS = {("test_accuracy", "percent"): "test accuracy, %", ("rounds_to_target", "rounds"): "rounds to a target"}


def printed() -> pd.DataFrame:
    """Return the printed test accuracies and rounds to targets: one line per number, with its source and split."""
    tables = {path.stem: pd.read_csv(path) for path in sorted((ROOT / "config/reference").glob("*.csv"))}
    lines = pd.concat(tables, names=["source", None]).reset_index("source")
    lines["metric"] = [METRICS.get(key) for key in zip(lines.metric, lines.unit, strict=True)]
    lines = lines[lines.metric.notna() & lines.variant.isna() & lines.clients.notna()].copy()
    parameter = lines.partition_param.astype("string").fillna("").str.removesuffix(".0")
    split = (lines.partition.fillna("unstated") + " " + parameter).str.strip()
    target = [f"{value:g} %" if pd.notna(value) else "" for value in lines.target]
    errata = [", ".join(FLAG.findall(note)) for note in lines.notes.fillna("")]
    cells = [f"{value:g} ({ids})" if ids else f"{value:g}" for value, ids in zip(lines.value, errata, strict=True)]
    cells = pd.Series(cells, lines.index).where(lines.value.notna(), None)
    return lines.assign(split=split, target=target, clients=lines.clients.astype(int), cell=cells)


def published_tables(lines: pd.DataFrame) -> dict[tuple[str, str, str], pd.DataFrame]:
    """Return (dataset, model, metric) -> printed numbers as text by (source, clients, target) and split."""
    keys = ["source", "clients", "target"]
    return {
        setting: group.pivot_table("cell", keys, "split", aggfunc="last", sort=False).fillna("–")
        for setting, group in lines.groupby(["dataset", "model", "metric"], sort=False)
    }


def settings(values: Mapping) -> str:
    """Return nested ``values`` as "`rho: 0.3`, `topology.graph: full`"."""
    return ", ".join(f"`{name}: {text}`" for name, text in flatten(values).items()) if values else ""


def of_algorithm(lines: pd.DataFrame, column: str, name: str) -> pd.DataFrame:
    """Return the lines of algorithm ``name`` and of its variants (``name~...``)."""
    return lines[lines[column].map(without_label) == name]


def page(
    name: str,
    template: Template,
    reference: pd.DataFrame,
    measured: pd.DataFrame,
    small_cnn: pd.DataFrame,
    runs: list,
    tables: Mapping,
) -> str:
    """Return the page of algorithm ``name`` in Markdown."""
    kind = algorithms.load(name)
    title, _, body = inspect.getdoc(inspect.getmodule(kind)).partition("\n\n")
    reference = reference[reference.algorithm == name]
    return template.render(
        name=name,
        title=title.removesuffix("."),
        text=re.sub(r"``(.*?)``", r"`\1`", body).strip("\n"),
        kind=kind,
        claims=CLAIMS[name],
        stored=kind().stored_vectors(),
        parameters=[(key, value, isinstance(value, Choice)) for key, value in kind.parameters().items()],
        reductions=[
            (reduction, *map(settings, (reduction.params, reduction.to_params, reduction.when)))
            for reduction in CLAIMS[name].reductions
        ],
        forms=[
            (parameter, value, inspect.getdoc(form).replace("\n", " ").replace("  ", " "))
            for (parameter, value), form in FORMS.items()
            if issubclass(kind, form.__bases__) and parameter in kind.parameters()
        ],
        effects=of_algorithm(measured, "row", name).to_dict("records"),
        published=published_tables(reference),
        flagged=reference.cell.str.contains("(", regex=False).any(),
        table=next((table for table, declared in tables.items() if name in declared.rows), None),
        runs=[run for run in runs if without_label(run.algorithm) == name],
        small_cnn=of_algorithm(small_cnn, "row", name),
        root=ROOT,
    )


def pages() -> dict[str, str]:
    """Return algorithm -> page."""
    template = Template(
        (ROOT / "studies/algorithm.md.jinja").read_text(encoding="utf-8"), trim_blocks=True, lstrip_blocks=True
    )
    small_cnn = read_csv("results/published/cifar10-cnn/cifar10_cnn.csv")
    small_cnn = small_cnn[small_cnn.status == "ok"]
    sources = template, printed(), choice_effects(), small_cnn, Results().runs, plan.load(ROOT).tables
    return {name: page(name, *sources) for name in sorted(algorithms.names())}


if __name__ == "__main__":
    PAGES.mkdir(exist_ok=True)
    for name, text in pages().items():
        (PAGES / f"{name}.md").write_text(text, encoding="utf-8")
