#!/usr/bin/env bash
# Steps for a GPU that is lent for minutes, without a network, with torch, numpy and safetensors:
#
#   benchmarks/lease.sh pack DATA.npz       at home: write to .lease/ the files that travel with the sources, except the data
#   benchmarks/lease.sh measure OUT         there: run the CUDA tests, then time a round of W1 with every executor
#   benchmarks/lease.sh train OUT SECONDS   there, repeatedly: train the runs in parallel and resume them
#   benchmarks/lease.sh authors OUT         there, after `train`: two rounds of FL-Simulator, from a clone in .lease
#
# Put the images in .lease/cifar10.npz (config/README.md, `npz`) and, if pytest is missing, the files of
# `pip download --dest .lease/wheels pytest` in .lease/wheels. OUT receives reports, logs and the runs' records, which
# `studies/results.py` reads. Environment variables: ALGORITHMS, SPLIT, SCALE, DEVICE, BUDGET (seconds for timing) and EXECUTOR
# (the fastest of `measure`; a run resumes with the same executor only).
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
        # Later trainings use the data of the first one.
        until [ -e "$dealt" ] || [ -z "$first" ] || ! kill -0 "$first" 2> /dev/null; do sleep 1; done
        sed -i "s|\"cuda\": \"[a-z]*\"|\"cuda\": \"${EXECUTOR:-stacked}\"|" "$script"
        # With the trap, the shell waits for the checkpoint.
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
