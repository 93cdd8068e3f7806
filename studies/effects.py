"""Measure the effect of single choices: paired differences between two rows of a table, seed by seed.

python studies/effects.py                                       print the published effects by split, with p
python studies/effects.py results/preview/tables/effects.csv    print those of other tables
"""

import itertools
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path

import numpy
import pandas as pd
import yaml
from scipy.stats import ttest_1samp

from published import read_csv

ROOT = Path(__file__).resolve().parents[1]
PUBLISHED = [f"results/published/effects/effects{which}.csv" for which in ("", "_newer", "_ours", "_cifar100", "_cnn")]

#: The largest corrected p of a difference.
LEVEL = 0.05

#: Half-width of the region of equivalence, a fraction of the test images.
REGION = 0.005

DIFFERS, NONE, OPEN, MISSING = "differs", "less than half a point", "open", "missing"

ABOUT = f"""# Which effect does one choice have on the accuracy?

The column "all columns" gives the effect of each choice in percentage points, with its 95 % interval (Student).

Each row is compared with the row from which it differs in one choice, paired by seed. p is from the exact two-sided
sign-flip test of each seed's mean difference over all columns. Holm's method corrects it for all choices of the table.
The verdict is "{DIFFERS}" if the corrected p is at most {LEVEL}, "{NONE}" if the interval lies within
{100 * REGION} points of zero, else "{OPEN}"."""


def accuracies(lines):
    """Return the accuracies (percent) in the ``lines`` of a table's CSV by (column, seed) and row, NaN if missing."""
    made = lines[lines.status == "ok"]
    made = made.assign(seed=made.seeds.str.split(";"), accuracy=made["values"].str.split(";"))
    made = made.explode(["seed", "accuracy"]).astype({"seed": int, "accuracy": float})
    index = pd.MultiIndex.from_product([lines.column.unique(), sorted(made.seed.unique())], names=["column", "seed"])
    values = made.pivot(index=["column", "seed"], columns="row", values="accuracy")
    return 100 * values.reindex(index=index, columns=lines.row.unique())


def effects(values, pairs):
    """Return (row -> differences by seed and column, row -> p, row -> p corrected by Holm); ``pairs``: row -> base.

    Incomplete pairs have no differences and count with p = 1.
    """
    all_pairs = {row: (values[row] - values[base]).unstack("column", sort=False) for row, base in pairs.items()}
    complete = {row: differences for row, differences in all_pairs.items() if differences.notna().all(axis=None)}
    p = {row: sign_flip(differences.mean(axis=1)) for row, differences in complete.items()}
    corrected = holm([*p.values(), *[1.0] * (len(pairs) - len(p))])
    return complete, p, dict(zip(p, corrected, strict=False))


def sign_flip(differences):
    """Return the two-sided p of ``differences``, one per seed: the share of sign patterns as extreme (Fisher 1935).

    Sums are equal if they agree to a billionth, which scipy's permutation test does not allow.
    """
    values = numpy.asarray(differences)
    sums = numpy.abs(numpy.array(list(itertools.product((-1, 1), repeat=len(values)))) @ values)
    return float((sums >= abs(values.sum()) - 1e-9 * numpy.abs(values).sum()).mean())


def holm(ps):
    """Return p of several tests, corrected for the family-wise error rate (Holm 1979)."""
    order = numpy.argsort(ps, kind="stable")
    corrected = numpy.maximum.accumulate(numpy.minimum(1, numpy.arange(len(ps), 0, -1) * numpy.take(ps, order)))
    return corrected[numpy.argsort(order)].tolist()


def interval(differences):
    """Return the 95 % interval (Student) of the mean of ``differences`` over seeds."""
    return ttest_1samp(differences, 0).confidence_interval()


def interval_text(differences):
    """Return the mean of ``differences`` over seeds with its interval: "+0.21 [−0.10, +0.52]"."""
    # Decimals, so that floating-point error does not decide ties.
    numbers = (Decimal(f"{number:.9f}") for number in (differences.mean(), *interval(differences)))
    return "{:+z.2f} [{:+z.2f}, {:+z.2f}]".format(*numbers).replace("-", "−")


def verdict(differences, corrected):
    """Return the verdict on the ``differences`` of the seeds."""
    if corrected <= LEVEL:
        return DIFFERS
    low, high = interval(differences)
    return NONE if max(-low, high) < 100 * REGION else OPEN


def p_text(p):
    """Return a p as text: "0.021", "<0.001"."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def section(lines, pairs, title):
    """Return the section of one table in Markdown."""
    values = accuracies(lines)
    differences, p, corrected = effects(values, pairs)
    labels = dict(zip(lines.row, lines.label, strict=True))
    columns = lines.column.unique()
    rows, verdicts = [], Counter()
    for row, base in pairs.items():
        if row in differences:
            mean = differences[row].mean(axis=1)
            texts = [interval_text(differences[row][column]) for column in columns]
            texts += [interval_text(mean), p_text(p[row]), p_text(corrected[row]), verdict(mean, corrected[row])]
        else:
            texts = ["–"] * (len(columns) + 3) + [MISSING]
        verdicts[texts[-1]] += 1
        rows.append([labels[row], labels[base], *texts])
    head = ["choice", "compared with", *columns, "all columns", "p", f"p, Holm of {len(pairs)}", "verdict"]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))
    counts = ", ".join(f"{text}: {count}" for text, count in sorted(verdicts.items()))
    seeds = values.index.unique("seed").size
    return f"## {title}\n\n`{lines.table[0]}`, {lines.scale[0]} scale, {seeds} seeds. Verdicts: {counts}.\n\n{table}"


def choice_effects():
    """Return the published effects, a line per pair of rows: table, labels, mean ``points``, text and verdict."""
    pairs, effect_lines = yaml.safe_load((ROOT / "studies/effects.yaml").read_text(encoding="utf-8")), []
    for file in PUBLISHED:
        lines = read_csv(file, dtype=str, keep_default_na=False)
        table, labels = lines.table[0], dict(zip(lines.row, lines.label, strict=True))
        differences, _, corrected = effects(accuracies(lines), pairs[table])
        for row, by_seed in differences.items():
            mean = by_seed.mean(axis=1)
            texts = labels[row], labels[pairs[table][row]], interval_text(mean), verdict(mean, corrected[row])
            effect_lines.append((row, table, mean.mean(), *texts))
    return pd.DataFrame(effect_lines, columns=["row", "table", "points", "choice", "base", "effect", "verdict"])


def page(files):
    """Return the page of the tables in CSV ``files``."""
    pairs = yaml.safe_load((ROOT / "studies/effects.yaml").read_text(encoding="utf-8"))
    sections = []
    for file in files:
        lines = read_csv(file, dtype=str, keep_default_na=False)
        name = lines.table[0]
        declared = yaml.safe_load((ROOT / f"config/tables/{name}.yaml").read_text(encoding="utf-8"))
        sections.append(section(lines, pairs[name], declared["title"]))
    return "\n\n".join([ABOUT, *sections]) + "\n"


if __name__ == "__main__":
    print(page(sys.argv[1:] or PUBLISHED), end="")
