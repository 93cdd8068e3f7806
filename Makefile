# Needs make, and Python 3.11 or 3.12 with its venv module. `make PYTHON=/path/to/python3.12 quickstart` selects a Python,
# `make CORES=4 quickstart` limits the cores.

SHELL := bash
.DEFAULT_GOAL := quickstart
.PHONY: quickstart test test-all lint lock mutants figures-page report-page results-page

CORES ?= all
CANDIDATES := $(or $(PYTHON),python3.12 python3.11 python3 python)
BIN := .venv/bin
PIP := --disable-pip-version-check
INSTALLED := .venv/installed
export PYTHONPATH := $(CURDIR)/src$(if $(PYTHONPATH),:$(PYTHONPATH))

define RESULT
import pandas, pathlib
file = pathlib.Path("results/preview/tables/fedsmoo2023_T1.csv")
table = pandas.read_csv(file).query("column == 'cifar10-dir0.1-100'") if file.exists() else ()
if len(table):
    print("\nTable 1 of FedSMOO, Dirichlet 0.1, on digits: test accuracy in %, mean and deviation over the seeds")
    print((100 * table.set_index("label")[["value", "spread"]]).round(1).to_string(header=False, index_names=False), "\n")
endef
export RESULT

quickstart: $(INSTALLED)
	$(BIN)/snakemake --cores $(CORES)
	@$(BIN)/python -c "$$RESULT"
	@echo "Open results/preview/report.html. \`. $(BIN)/activate\` provides \`snakemake\` and \`flatfed\`."

# As many files of tests at a time as there are cores, at most four: each takes up to 3 GB.
PYTEST := $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# Of exhaustive families (tests/samples.py) a fixed sample.
test: $(INSTALLED)
	$(PYTEST) -m "not full"

# All that can be tried: every test, and whether the tests notice mistakes in the source.
test-all: $(INSTALLED)
	$(PYTEST)
	$(MAKE) mutants

# Insert about 280 errors into the source, one at a time, in memory; the tests must detect each. Some 4 minutes on two cores.
# `make mutants ALGORITHMS="fedsmoo feddyn"` selects two algorithms.
mutants: $(INSTALLED)
	$(BIN)/python tests/mutants $(ALGORITHMS)

# Write docs/figures.md: thumbnails of all preview figures, with links to docs/figures.
figures-page: $(INSTALLED)
	$(BIN)/python docs/pictures.py figures

# Write docs/report.png, a picture of results/preview/report.html in Chromium.
report-page: $(INSTALLED)
	$(BIN)/python docs/pictures.py report

# Write docs/results.md and its pictures, docs/which-code.md, docs/algorithms and the first picture of README.md from
# results/published.
results-page: $(INSTALLED)
	$(BIN)/python studies/results.py
	$(BIN)/python studies/which_code.py
	$(BIN)/python studies/algorithms.py

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint

# Resolve the bounds of pyproject.toml into requirements.lock, for all systems and both Pythons, and copy its pins into the conda
# environments. Needs uv. Pins that still satisfy the bounds stay: delete a line of requirements.lock to update its package.
lock:
	uv pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest --no-emit-index-url --extra dev \
	    --custom-compile-command "make lock" --output-file requirements.lock pyproject.toml
	@grep == requirements.lock | sed 's/^/      - /' > requirements.pins
	@for file in environment.yml workflow/envs/jobs.yml; do \
	    sed -e '/==/d' -e '/^  - pip:/r requirements.pins' $$file > $$file.new && mv $$file.new $$file; \
	done; rm requirements.pins

# Install the packages of requirements.lock, with uv if it is on the path, and a command `flatfed` (also `python -m flatfed`) that
# runs these sources. Jobs find the sources by PYTHONPATH, also without the installation. The last line marks the environment as
# complete; make repeats an interrupted installation.
$(INSTALLED): pyproject.toml requirements.lock
	@suitable='import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 13))'; \
	if ! $(BIN)/python -c "$$suitable" 2> /dev/null; then \
	    for python in $(CANDIDATES) none; do "$$python" -c "$$suitable" 2> /dev/null && break; done; \
	    if [ "$$python" = none ]; then \
	        echo "FlatFed needs Python 3.11 or 3.12 with its venv module (Debian: apt install python3-venv)." \
	            "Not suitable or not found: $(CANDIDATES). Name one: make PYTHON=/path/to/python3.12" >&2; \
	        exit 1; \
	    fi; \
	    "$$python" -m venv --clear .venv; \
	fi
	@echo "Installing the packages of requirements.lock into .venv ($$($(BIN)/python --version)): some minutes, 6 GB, once"
	@set -eo pipefail; \
	if command -v uv > /dev/null; then \
	    uv pip install --python $(BIN)/python --compile-bytecode --requirement requirements.lock; \
	    uv pip install --python $(BIN)/python --quiet --no-deps --editable .; \
	else \
	    $(BIN)/python -m pip install $(PIP) --progress-bar off --requirement requirements.lock \
	        | awk '/^ *Downloading.* [MG]B/ {print "  " $$2, $$3, $$4; fflush()} /^Installing/ {print "  unpacking"; fflush()}'; \
	    $(BIN)/python -m pip install $(PIP) --quiet --no-deps --editable .; \
	fi
	@touch $@
