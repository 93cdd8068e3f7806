#!/bin/sh
# How 72abba8b.tar.xz and the first 72abba8b.json were made, with the code of commit 72abba8b: four minutes on two cores.
# Call it in a clone with .venv. It needs no network. Later commits changed messages in the JSON file on purpose: texts.py.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(git -C "$here" rev-parse --show-toplevel)
PATH="$root/.venv/bin:$PATH"
house=$(mktemp -d)
git -C "$root" worktree add --detach "$house" 72abba8b
cd "$house"

# What the present Snakemake plans for all that 72abba8b ships, and the messages of its mistakes.py. No results exist yet.
python "$here/texts.py" "$house" > "$here/72abba8b.json"
rm -rf .snakemake

# The files of a user.
mkdir -p mine/algorithms mine/models mine/tables
cat > config/config.yaml <<'END'
scale: preview
tables:
  - {table: fedsmoo2023_T1, columns: [cifar10-path3-100]}
  - {table: fedsmoo2023_T6, columns: ["cifar10-path3-100.*"]}
  - house_T1
  - house_T2
  - house_T3
figures: [house_F1, house_F2]
tune: true
device: cpu
algorithm_folders: [mine/algorithms]
model_folders: [mine/models]
table_folders: [mine/tables]
END
cat > mine/algorithms/_median.py <<'END'
"""A helper of the algorithm."""


def median(rows):
    """Return the coordinate-wise median (1, n) of ``rows`` (m, n)."""
    return rows.median(dim=0, keepdim=True).values
END
cat > mine/algorithms/fedmedian.py <<'END'
"""FedSAM's clients; the server takes the median of each coordinate."""

from flatfed.algorithms import Number
from flatfed.algorithms._median import median
from flatfed.algorithms.fedsam import FedSAM


class FedMedian(FedSAM):
    """Local SAM steps and a median that moves the server by a ``share``."""

    share = Number(1.0, "share of the way to the median", minimum=0, maximum=1)

    def aggregate(self, server, uploads, ctx):
        """w = w + share (median_S w_i - w)."""
        server["w"].lerp_(median(uploads["w"]), self.share)
END
cat > mine/models/perceptron.py <<'END'
"""A perceptron with one hidden layer."""

from math import prod

from torch import nn

from flatfed.models import Whole


def build(shape, classes, width=Whole(64, "units of the hidden layer", minimum=1)):
    """Return the module for images of ``shape`` (C, H, W)."""
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), width), nn.ReLU(), nn.Linear(width, classes))
END
cat > mine/tables/house_T1.yaml <<'END'
title: My algorithm on a shipped set-up and on mine
rows: [fedavg, fedmedian, fedmedian~half]
metrics:
  - {metric: test_accuracy, unit: percent, label: Accuracy}
  - {metric: rounds_to_target, unit: rounds, label: Rounds, targets: [t1]}
columns:
  - {protocol: fedsmoo-cifar10, splits: [path3-100]}
  - {protocol: house, splits: [skewed]}
algorithms:
  fedmedian~half: {label: "My algorithm, half of the way", set: {share: 0.5}}
splits:
  skewed: {label: [Skewed], scheme: dirichlet, alpha: 0.3, replacement: false, clients: 40, participation: 0.2}
protocols:
  house:
    label: My set-up
    dataset: digits
    model: {name: perceptron, options: {width: 16}}
    rounds: 30
    targets: {"*": {t1: 0.6}}
    algorithms: {fedmedian: {rho: 0.05}}
    tune: {seed: 1, validation: 0.2, grids: {fedmedian: {rho: [0.02, 0.2]}}}
    preview: {dataset: digits, clients_times: 0.5, participation_times: 1, rounds: 8, batch_size: 10}
END
cat > mine/tables/house_T2.yaml <<'END'
title: Flatness and time
rows: [fedavg, fedmedian]
seeds: {preview: [1]}
metrics:
  - {metric: hessian_top_eigenvalue, unit: number, label: Top eigenvalue}
  - {metric: hessian_scaled_trace, unit: number, label: "Trace, scaled"}
  - {metric: seconds_per_round, unit: s, label: Time of a round}
columns:
  - {protocol: fedsmoo-cifar10, splits: [path3-100]}
  - {protocol: house, splits: [skewed]}
END
cat > mine/tables/house_T3.yaml <<'END'
title: A tuned row of a paper
rows: [fedsam]
metric: client_test_accuracy
unit: percent
columns: [{protocol: fedsam-cifar10, splits: [dir0.6-100-p20]}]
END
cat > config/figures/house_F1.yaml <<'END'
kind: curves
title: My algorithm on my set-up
protocol: house
splits: [skewed]
rows: [fedavg, fedmedian, fedmedian~half]
END
cat > config/figures/house_F2.yaml <<'END'
kind: surface
title: Loss surfaces
panels:
  - {title: My model, protocol: house, split: skewed, rows: [fedmedian]}
  - {title: Small CNN, protocol: fedsmoo-cifar10, split: path3-100, rows: [fedsmoo]}
END

# A run that is a target, and that no analysis reads, keeps its model.
runs=results/preview/runs cells=results/preview/cells
snakemake --cores 2 tuning
snakemake --cores 2 -- default $runs/fedsmoo-cifar10/path3-100/fedsmoo/seed2/run.json $runs/house/skewed/fedmedian/seed2/run.json
snakemake --cores 2 -- $cells/fedsmoo2023_T1/cifar10-path3-100/fedsmoo.json \
    $cells/house_T2/digits-skewed.hessian_top_eigenvalue/fedmedian.json
snakemake --cores 2 --dry-run | grep "Nothing to be done"

# The user's files and the outputs, with their times. Figures and report, nine tenths of the bytes, stay out.
{
    git ls-files --others --exclude-standard --modified
    find .snakemake/metadata resources results/preview -type f ! -path '*/figures/*' ! -name report.html
} | sort | XZ_OPT=-9e tar --create --xz --format=pax --owner=0 --group=0 --numeric-owner --file "$here/72abba8b.tar.xz" --files-from=-
cd "$root"
git worktree remove --force "$house"
