#!/usr/bin/env bash
# Steps for a GPU that is lent for minutes, without a network, with torch, numpy and safetensors:
#
#   benchmarks/lease.sh pack DATA.npz       at home: write to .lease/ the files that travel with the sources, except the data
#   benchmarks/lease.sh measure OUT         there: run the CUDA tests, then time a round of W1 with every executor
#   benchmarks/lease.sh train OUT SECONDS   there, repeatedly: train the runs, two at a time, and resume them
#   benchmarks/lease.sh authors OUT         there, after `train`: two rounds of FL-Simulator, from a clone in .lease
#
# Put the images in .lease/cifar10.npz (config/README.md, `npz`) and, if pytest is missing, the files of
# `pip download --dest .lease/wheels pytest` in .lease/wheels. OUT receives reports, logs and the runs' records, which
# `studies/results.py` reads. Environment variables: ALGORITHMS, SPLIT, SCALE, DEVICE and BUDGET (seconds for timing).
# On an NVIDIA H200, a run of ResNet-18 fills the GPU, so two at a time only cover each other's evaluation.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONPATH=src
made="results/${SCALE:-paper}" split="${SPLIT:-path3-200}"
dealt="$made/partitions/fedsmoo-cifar10/$split/seed1.npz"

pack() {
    mkdir -p .lease
    local data="{cifar10: {source: npz, path: $1, order: results/published/orders/cifar10.npz}}"
    for algorithm in ${ALGORITHMS:-fedsam fedadam}; do
        local run="$made/runs/fedsmoo-cifar10/$split/$algorithm/seed1"
        python -m flatfed describe --script --config "data=$data" -- "$run" \
            | sed "s|\"path\": \"$1\"|\"path\": \".lease/cifar10.npz\"|" > ".lease/$algorithm.sh"
        python -m flatfed describe --config "data=$data" -- "$run" > ".lease/$algorithm.json"
    done
}

measure() {
    [ ! -d .lease/wheels ] || pip install --quiet --no-index --find-links .lease/wheels pytest
    python -m pytest tests/gpu -q -p no:cacheprovider 2>&1 | tee "$1/tests.txt" || true
    python benchmarks/rounds.py W1 --device "${DEVICE:-cuda}" --rounds 3 --yardstick-clients 1 --budget "${BUDGET:-240}" \
        --out "$1/w1.json"
}

train() {
    local scripts=(.lease/*.sh)
    grep -v "flatfed train" "${scripts[0]}" | sh  # the data, once for all
    export out=$1 end=$(($(date +%s) + $2))
    # With the trap, the shell waits for the checkpoint.
    printf '%s\n' "${scripts[@]}" | xargs -P 2 -I{} bash -c 'left=$((end - $(date +%s))); [ $left -le 0 ] ||
        timeout --signal=TERM $left bash -c "trap : TERM; . {}" > "$out/$(basename {} .sh).log" 2>&1' || true
    for script in "${scripts[@]}"; do
        algorithm=$(basename "$script" .sh)
        tail -n 1 "$1/$algorithm.log" && rm "$1/$algorithm.log" || true
    done
    tar -czf "$1/runs.tar.gz" --exclude=model.safetensors --exclude=".*" "$made/runs"
}

authors() {
    for run in .lease/*.json; do
        python benchmarks/authors_code.py .lease/FL-Simulator --run "$run" --dataset "${DATASET:-resources/cifar10}" \
            --partition "$dealt" --rounds 2 --device "${DEVICE:-cuda}" --out "$1/authors-$(basename "$run" .json).csv"
    done
}

case ${1:-} in
    pack | measure | train | authors) "$@" ;;
    *) sed -n '2,13p' "$0" && exit 2 ;;
esac
