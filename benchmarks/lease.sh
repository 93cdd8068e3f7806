#!/usr/bin/env bash
# What to do with a GPU lent for minutes at a time, without a network, where `python` has torch, numpy and safetensors:
#
#   benchmarks/lease.sh pack DATA.npz       at home: puts into .lease/ what has to travel with the sources, but for the data
#   benchmarks/lease.sh measure OUT         there: the tests of CUDA, then a round of the papers' setting by every executor
#   benchmarks/lease.sh train OUT SECONDS   there, again and again: trains the runs in parallel and resumes them
#   benchmarks/lease.sh authors OUT         there, after `train`: two rounds of FL-Simulator, from a clone in .lease
#
# There the images are wanted as .lease/cifar10.npz (config/README.md, `npz`), and pytest, where it is missing, as what
# `pip download --dest .lease/wheels pytest` brings. OUT gets reports, and of each run the lines and the record so far, or
# the finished ones: `studies/results.py` reads them. ALGORITHMS, SPLIT, SCALE, DEVICE, BUDGET (seconds of `measure`'s second half)
# and EXECUTOR (the fastest of `measure`; a run resumes with its own only) may be set in the environment.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONPATH=src
made="results/${SCALE:-paper}" split="${SPLIT:-path3-200}"
dealt="$made/partitions/fedsmoo-cifar10/$split/seed1.npz"

pack() {
    mkdir -p .lease
    for algorithm in ${ALGORITHMS:-fedcm}; do
        python -m flatfed describe --script \
            --config "data={cifar10: {source: npz, path: $1}}" -- \
            "$made/runs/fedsmoo-cifar10/$split/$algorithm/seed1" \
            | sed "s|\"path\": \"$1\"|\"path\": \".lease/cifar10.npz\"|" > ".lease/$algorithm.sh"
        python -m flatfed describe --config "data={cifar10: {source: npz, path: $1}}" -- \
            "$made/runs/fedsmoo-cifar10/$split/$algorithm/seed1" > ".lease/$algorithm.json"
    done
}

measure() {
    [ ! -d .lease/wheels ] || pip install --quiet --no-index --find-links .lease/wheels pytest
    python -m pytest tests/gpu -q -p no:cacheprovider 2>&1 | tee "$1/tests.txt" || true
    python benchmarks/rounds.py W1 --device "${DEVICE:-cuda}" --rounds 3 --yardstick-clients 1 --budget "${BUDGET:-240}" \
        --out "$1/w1.json"
}

train() {
    local first=
    for script in .lease/*.sh; do
        # A program that begins later finds the data that the first one made.
        until [ -e "$dealt" ] || [ -z "$first" ] || ! kill -0 "$first" 2> /dev/null; do sleep 1; done
        sed -i "s|\"cuda\": \"[a-z]*\"|\"cuda\": \"${EXECUTOR:-stacked}\"|" "$script"
        # The trap has the shell wait for a training that writes its checkpoint.
        timeout --signal=TERM "$2" bash -c 'trap : TERM; . "$0"' "$script" > "$1/$(basename "$script" .sh).log" 2>&1 &
        first=${first:-$!}
    done
    wait || true
    for script in .lease/*.sh; do
        algorithm=$(basename "$script" .sh)
        mkdir -p "$1/$algorithm"
        cp "$made/runs/fedsmoo-cifar10/$split/$algorithm/seed1"/{metrics,run}*.* "$1/$algorithm/" 2> /dev/null || true
        tail -n 1 "$1/$algorithm.log"
        rm "$1/$algorithm.log"
    done
}

authors() {
    for run in .lease/*.json; do
        python benchmarks/authors_code.py .lease/FL-Simulator --run "$run" --dataset "${DATASET:-resources/cifar10}" \
            --partition "$dealt" --rounds 2 --device "${DEVICE:-cuda}" --out "$1/authors-$(basename "$run" .json).csv"
    done
}

case ${1:-} in
    pack | measure | train | authors) "$@" ;;
    *) sed -n '2,12p' "$0" && exit 2 ;;
esac
