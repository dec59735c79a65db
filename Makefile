# Two commands do everything on a fresh machine: `make demo` and `make test`.
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
WORKSPACE ?= workspace
JOBS ?= 2

.PHONY: help demo test check fix bench soak docs clean
.DEFAULT_GOAL := help

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-7s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The stamp names the lock file's content, so that a changed pin reinstalls and nothing else does.
STAMP := $(VENV)/.installed-$(shell cat requirements.lock pyproject.toml | cksum | cut -d ' ' -f 1)
$(STAMP):
	@test -x $(BIN)/python || { echo "making an environment in $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "installing torch into $(VENV): the largest part, once; nothing is shown for minutes"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	@echo "installing the rest: minutes as well"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[train,view,crawl,ray,gym,dev]'
	@rm -f $(VENV)/.installed-*; touch $@

demo: $(STAMP)  ## From real tools to a trained model, in minutes (DEMO_FLAGS=--offline never tries the network)
	$(BIN)/toolloom --workspace $(WORKSPACE) demo $(DEMO_FLAGS)

test: $(STAMP)  ## Run the whole test suite
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile

check: $(STAMP)  ## Lint and types, changing nothing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

fix: $(STAMP)  ## Format and repair what can be repaired
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)  ## Print a table of medians (no timed test)
	$(BIN)/python bench/bench.py

soak: $(STAMP)  ## Longer checks, run by hand
	$(BIN)/python -m pytest -n $(JOBS) --soak

docs: $(STAMP)  ## Make the generated pages and the picture of the README anew
	$(BIN)/python docs/generate.py

clean:  ## Remove the environment and caches (never a workspace)
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build *.egg-info
