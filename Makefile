# What this needs: make and a Python 3.11 or 3.12 that can make virtual environments. `make PYTHON=/path/to/python3.12 ...` picks
# one; `make CORES=4 quickstart` limits the cores.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := quickstart
.PHONY: quickstart test lint

CORES ?= all
BIN := .venv/bin
INSTALLED := .venv/installed
export PYTHONPATH := src$(if $(PYTHONPATH),:$(PYTHONPATH))

quickstart: $(INSTALLED) ## the tables and figures of config/config.yaml
	$(BIN)/snakemake --cores $(CORES)
	@$(BIN)/python -m flatfed where

test: $(INSTALLED)
	$(BIN)/python -m pytest

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/snakefmt --check --quiet Snakefile workflow
	$(BIN)/snakemake --lint

# The packages of pyproject.toml, not flatfed itself: the workflow, pytest and this file put src/ on the path. The last line
# of the recipe marks the environment as whole, so one whose installation was interrupted is made again.
$(INSTALLED): pyproject.toml
	@suitable='import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 13))'; \
	for python in $(or $(PYTHON),python3.12 python3.11 python3 python); do \
	    "$$python" -c "$$suitable" 2> /dev/null && break || python=; \
	done; \
	if [ -z "$$python" ]; then \
	    echo "FlatFed needs Python 3.11 or 3.12 with its venv module (on Debian: apt install python3-venv);" \
	        "$(or $(PYTHON),none of python3.12 python3.11 python3 python) is one. Say which: make PYTHON=/path/to/python" >&2; \
	    exit 1; \
	fi; \
	echo "Installing the packages of pyproject.toml into .venv with $$("$$python" --version): once, some minutes, 6 GB"; \
	"$$python" -m venv --clear .venv
	@$(BIN)/python -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	    print(*project["dependencies"], *project["optional-dependencies"]["dev"], sep="\n")' > .venv/requirements.txt
	@$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off --requirement .venv/requirements.txt \
	    | awk '/^ *Downloading/ {print "  " $$2, $$3, $$4; fflush()} /^Installing/ {print "  unpacking"; fflush()}'
	@touch $@
