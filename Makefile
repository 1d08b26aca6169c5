# Every CI step is a target here, so that anyone can run all of CI on their own machine.
.DELETE_ON_ERROR:
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
# The first interpreter from 3.10 to 3.12 that really starts (a shim may hide the one behind it, or have none) and that
# can make an environment (some distributions leave ensurepip out).
PYTHON ?= $(shell for p in $$(type -aP python3.11 python3.12 python3.10 python3 python) ~/.pyenv/versions/3.1[012].*/bin/python; do \
	$$p -c 'import ensurepip, sys, venv; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))' >/dev/null 2>&1 && { echo $$p; break; }; done)
PIP_FLAGS := --quiet --disable-pip-version-check

.PHONY: help venv demo test lint types contracts docs docs-check messages wheel test-2.7 test-faults bench fuzz quality clean ci

help: ## what each target does
	@grep -E '^[a-zA-Z0-9_.-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/.installed: pyproject.toml
	@test -n "$(PYTHON)" || { echo "No Python from 3.10 to 3.12 with venv and ensurepip was found; name one with make PYTHON=..." >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@echo "Installing msforensics and what its demo and tests need into $(VENV) ..."
	@$(BIN)/python -m pip install $(PIP_FLAGS) --upgrade pip
	@$(BIN)/python -m pip install $(PIP_FLAGS) -e '.[demo,dev]'
	@touch $@

venv: $(VENV)/.installed ## create .venv and install everything into it

demo: venv ## train a real model until a planted fault kills it, and say why it died
	@$(BIN)/msforensics demo --out runs/demo

test: venv ## every test, with coverage
	@$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --cov --cov-report=term --cov-fail-under=95

test-faults: venv ## a fault in every function of the recorder in turn; takes a quarter of an hour
	@EVERY_FAULT=1 $(BIN)/python -m pytest tests/integration/test_every_fault.py

lint: venv ## ruff: lint and format
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: venv ## mypy strict over package and tests
	@$(BIN)/mypy

contracts: venv ## who may import whom
	@$(BIN)/lint-imports

docs: venv ## write the generated pages of docs/
	@$(BIN)/python docs/generate.py

docs-check: venv ## fail when a generated page is stale
	@$(BIN)/python docs/generate.py --check

messages: venv ## collect what reports say into the catalogues, and compile them
	@$(BIN)/python tools/messages.py

wheel: venv ## build the wheel and use it, without MindSpore, from another folder
	@tests/wheel.sh $(BIN)/python

.venv-2.7/.installed: pyproject.toml
	@.venv-2.7/bin/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv-2.7
	@.venv-2.7/bin/python -m pip install $(PIP_FLAGS) --upgrade pip
	@.venv-2.7/bin/python -m pip install $(PIP_FLAGS) -e '.[dev]' 'mindspore==2.7.0' 'numpy>=1.26,<2' 'scikit-learn>=1.4'
	@touch $@

test-2.7: .venv-2.7/.installed ## the recorder's tests on MindSpore 2.7.0
	@.venv-2.7/bin/python -m pytest -m mindspore

bench: venv ## what the recorder costs, measured into docs/overhead.md
	@$(BIN)/python -m benchmarks.overhead --write

quality: venv ## train the labelled cases, and measure how often the diagnosis is right, into docs/quality.md
	@$(BIN)/python -m benchmarks.quality --write

fuzz: venv ## a minute of damaged, forged and hostile files; the whole run is python -m benchmarks.fuzz --write
	@$(BIN)/python -m benchmarks.fuzz --seconds 60 --seed $(or $(SEED),1)

clean: ## remove what the other targets made
	rm -rf .venv .venv-2.7 build dist *.egg-info .coverage .coverage.* htmlcov .hypothesis .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .quality

ci: lint types contracts docs-check test fuzz wheel demo ## what .ci/run runs
