#!/usr/bin/env bash
# Runs for a GPU that is free for minutes, on a host without a network. `python3` has FlatFed's packages at home, and torch,
# numpy, scipy, safetensors, pillow, pytest and pytest-xdist on the GPU host. The kit has pydantic for Python 3.11 and 3.12 on Linux, x86-64.
#
#   benchmarks/short_gpu.sh pack QUEUE [--config K=V] [--scale preview]   at home
#   benchmarks/short_gpu.sh check OUT SECONDS                             first call: copy the sources, .short_gpu/kit and
#                                                                         .short_gpu/images.0.npz
#   benchmarks/short_gpu.sh queue OUT SECONDS [--device cpu]              second call: copy the sources and .short_gpu/images.1.npz;
#                                                                         the host keeps the rest
#   tar -xzf OUT/runs.tar.gz                                              at home, in FlatFed's folder
#
# QUEUE has one run per line: protocol, split, algorithm, seed, perhaps a folder of results/published/<protocol> for a second precision,
# then an optional # comment. `pack` leaves out published runs.
# It prints the sizes of the three paths to copy.
#
# `check` runs tests/gpu for at most a minute, then measures the seconds of a round of FedSMOO's set-up (benchmarks/rounds.py W1) for
# the rest of SECONDS.
#
# `queue` trains the runs one after another, because one run fills a GPU. A run starts only if its time fits into the rest
# of SECONDS. QUEUE.measured.json has the seconds of each kind of run (protocol, algorithm, number of clients, GPU); a kind
# without a line trains three rounds first. When no further run fits, the loss surfaces and Hessians of the trained models are
# computed (`--analyses N` keeps N seconds for them). OUT/runs.tar.gz receives records, analyses and measurements at once, but no
# model. An interrupted run leaves metrics.so-far.csv and cannot be resumed.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONPATH="src:.short_gpu/kit/packages:${PYTHONPATH:-}" PYTHONUNBUFFERED=1

# A host without pydantic takes that of the kit.
provide_pydantic() {
    if ! python3 -c "import flatfed.runs.run_config" 2> /dev/null; then
        python3 -m zipfile -e .short_gpu/kit/pydantic.zip .short_gpu/pydantic
        export PYTHONPATH=".short_gpu/pydantic:$PYTHONPATH"
    fi
}

check() {
    provide_pydantic
    local end=$((SECONDS + $2))
    timeout 60 python3 -m pytest tests/gpu -q -n auto --maxfail 3 --tb short -p no:cacheprovider 2>&1 | tee "$1/tests.txt" || true
    python3 benchmarks/rounds.py W1 --device cuda --out "$1/rounds.json" --budget $((end - SECONDS)) 2>&1 | tee "$1/rounds.txt"
}

case ${1:-} in
    pack) python3 benchmarks/short_gpu.py "$@" ;;
    check) check "$2" "$3" ;;
    queue) provide_pydantic && python3 benchmarks/short_gpu.py "$@" 2>&1 | tee "$2/queue.txt" ;;
    *) sed -n '2,/^set/{/^#/p}' "$0" && exit 2 ;;
esac
