"""Compare the cells that several sources print.

python studies/disputed.py    print the cells; studies/which_code.py writes their summary
"""

import itertools
import math
from pathlib import Path

import pandas as pd
import yaml
from scipy.stats import kendalltau

ROOT = Path(__file__).resolve().parents[1]

#: Columns of config/reference that identify a cell, besides the algorithm.
SETTING = ["dataset", "model", "partition", "partition_param", "clients", "participation"]
LABELS = {"iid": "IID", "dirichlet": "Dirichlet", "pathological": "Pathological", "resnet18_gn": "ResNet-18-GN"}
LABELS |= {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
COLUMNS = ["column", "first", "second", "rows", "median", "largest", "tau", "same_best"]
READ_OUT = {"final": "last round", "best": "best round on the test set", "mean": "mean of the last {last} rounds"}


def column_name(dataset, model, partition, parameter, clients, participation):
    """Return the name of a table column: "CIFAR-10, ResNet-18-GN, Dirichlet 0.6, 10 % of 100 clients"."""
    dataset, model, partition = (LABELS.get(key, key) for key in (dataset, model, partition))
    partition += f" {float(parameter):g}" if parameter else ""
    return f"{dataset}, {model}, {partition}, {100 * float(participation):g} % of {float(clients):g} clients"


def accuracies(lines):
    """Return the accuracies (percent) in ``lines`` of config/reference by (column, algorithm)."""
    stated = (lines[["partition", "clients", "participation", "value"]] != "").all(axis=1) & (lines.variant == "")
    lines = lines[stated & (lines.metric == "test_accuracy") & (lines.unit == "percent")]
    columns = [column_name(*setting) for setting in lines[SETTING].values]
    index = pd.MultiIndex.from_arrays([columns, lines.algorithm], names=["column", "algorithm"])
    return pd.Series(lines.value.astype(float).values, index)


def printed(sources, folder):
    """Return the accuracies by (column, algorithm), one column per source, NaN if missing.

    ValueError: a source prints different numbers for the same cell.
    """
    numbers = {}
    for name, source in sources.items():
        files = [pd.read_csv(folder / f"{table}.csv", dtype=str, keep_default_na=False) for table in source["tables"]]
        of_source = accuracies(pd.concat(files)).groupby(level=[0, 1], sort=False)
        if (of_source.nunique() > 1).any():
            raise ValueError(f"{name}: its tables print different numbers for {of_source.nunique().idxmax()}")
        numbers[name] = of_source.first()
    return pd.concat(numbers, axis=1)


def with_best(cells, best_of):
    """Return ``cells`` with missing numbers of ``best_of`` (row -> algorithms) filled with the best algorithm."""
    cells = cells.copy()
    for row, algorithms in best_of.items():
        for column in cells.xs(row, level="algorithm").index:
            best = cells.reindex([(column, algorithm) for algorithm in algorithms]).max(skipna=False)
            cells.loc[(column, row)] = cells.loc[(column, row)].fillna(best)
    return cells


def disputed(cells):
    """Return the cells of two or more sources, with their range ``apart``."""
    several = cells[cells.count(axis=1) > 1]
    return several.assign(apart=several.max(axis=1) - several.min(axis=1))


def rankings(cells, least=4):
    """Return differences and Kendall's tau of two sources in columns with ``least`` common algorithms."""
    results = []
    for column, of_column in cells.groupby(level="column", sort=False):
        for first, second in itertools.combinations(cells.columns, 2):
            both = of_column[[first, second]].dropna()
            if len(both) >= least and (both.nunique() > 1).all():
                best, apart = both == both.max(), (both[first] - both[second]).abs()
                tau = kendalltau(both[first], both[second]).statistic
                same_best = bool((best[first] == best[second]).all())
                results.append((column, first, second, len(both), apart.median(), apart.max(), tau, same_best))
    return pd.DataFrame(results, columns=COLUMNS)


def interval(tau, rows):
    """Return the 95 % interval of Kendall's tau (Fieller et al. 1957), None for 4 rows or |tau| = 1."""
    if rows <= 4 or abs(tau) > 1 - 1e-9:
        return None
    half = 1.96 * math.sqrt(0.437 / (rows - 4))
    return math.tanh(math.atanh(tau) - half), math.tanh(math.atanh(tau) + half)


def table(head, rows):
    """Return a Markdown table."""
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in (head, ["---"] * len(head), *rows))


def table_of_sources(sources, cells):
    """Return the table of the sources."""
    head = ("source", "printed in", "rounds", "number", "basis of this reading", "accuracies")
    rows = []
    for name, source in sources.items():
        number = READ_OUT[source["read_out"]].format(**source)
        basis = source.get("inferred", "stated")
        rows.append((source["label"], source["where"], f"{source['rounds']:,}", number, basis, cells[name].count()))
    return table(head, rows)


def table_of_differences(sources, labels):
    """Return the table of differences between the sources' set-ups and FedSMOO's."""
    rows = []
    for source in sources.values():
        for entry in source.get("differs", ()):
            limits = [value for key in ("rows", "datasets", "partitions") for value in entry.get(key, ())]
            limits = [labels.get(value, value) for value in limits] + [f"{n} clients" for n in entry.get("clients", ())]
            rows.append((source["label"], ", ".join(limits) or "all", entry["says"]))
    return table(("source", "cells", "difference"), rows)


def table_of_rankings(results):
    """Return the table of :func:`rankings`."""
    rows = []
    names = results.column.mask(results.column.duplicated(), "")
    for name, pair in zip(names, results.itertuples(index=False), strict=True):
        bounds = interval(pair.tau, pair.rows)
        tau = f"{pair.tau:.2f} [{bounds[0]:.2f}, {bounds[1]:.2f}]" if bounds else f"{pair.tau:.2f}"
        apart, same_best = (f"{pair.median:.2f}", f"{pair.largest:.2f}"), "yes" if pair.same_best else "no"
        rows.append((name, f"{pair.first}, {pair.second}", pair.rows, *apart, tau, same_best))
    return table(("column", "sources", "rows", "median", "largest", "tau", "same best row"), rows)


def table_of_cells(several, labels):
    """Return the table of disputed cells, the largest difference of each column first."""
    rows = []
    for column, of_column in several.groupby(level="column", sort=False):
        rows.append((f"**{column}**", *[""] * several.shape[1]))
        for (_, row), numbers in of_column.sort_values("apart", ascending=False).iterrows():
            rows.append((labels[row], *("" if math.isnan(number) else f"{number:.2f}" for number in numbers)))
    return table(("algorithm", *several.columns), rows)


def read():
    """Return the sources, their accuracies by (column, algorithm), and algorithm -> label, also of rows "best of 3"."""
    sources = yaml.safe_load((ROOT / "studies/sources.yaml").read_text(encoding="utf-8"))
    algorithms = yaml.safe_load((ROOT / "config/algorithms.yaml").read_text(encoding="utf-8"))
    labels = {name: entry["label"] for name, entry in algorithms.items() if "label" in entry}
    for row, names in best_rows(sources).items():
        labels[row] = f"{labels[names[0]]}, best of {len(names)}"
    return sources, printed(sources, ROOT / "config/reference"), labels


def best_rows(sources):
    """Return row -> the algorithms of which a source prints the best."""
    return {row: names for source in sources.values() for row, names in source.get("best_of", {}).items()}


def by_source(sources, cells):
    """Return the disputed cells of ``cells``, a column per label of a source, and their range ``apart``."""
    labels = {name: source["label"] for name, source in sources.items()}
    return disputed(with_best(cells, best_rows(sources))).rename(columns=labels)


def main():
    """Print the cells."""
    sources, cells, labels = read()
    print(table_of_cells(by_source(sources, cells), LABELS | labels))


if __name__ == "__main__":
    main()
