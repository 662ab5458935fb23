# Every target does its own set-up: Python 3.11 or later, with its venv module, is all that must be there.
#
#   make demo    install and run the flights demonstration       make test     the tests
#   make matchers lint types docs-check kernels wheel-check      what .ci/run adds to them
#   make faults MINUTES=2     kill processes of a cluster under load, check every answer
#   make slow                 the tests that take long or much memory
#   make matchers             the tests of the papers' matchers and experiments, which make test leaves out
#   make matcher-kernels      the papers' matchers without the compiler, and with bounds checks (twelve minutes)
#   make durable-faults       kill coordinator and durable receivers, look for what is lost
#
# Variables: PYTHON=python3.12 (interpreter for .venv), DEMO_FLAGS='--flights 40000', PYTEST_FLAGS='-k name'.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.PHONY: demo test matchers slow faults durable-faults lint format types docs docs-check kernels matcher-kernels wheel-check clean help

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
DEMO_FLAGS ?=
PYTEST_FLAGS ?=
KERNEL_TESTS = $(wildcard tests/test_kernels_*.py) tests/test_engine_tables.py tests/test_engine_trees.py tests/test_builder_layout.py tests/test_delta_keyed.py tests/test_algorithms_trees.py
MATCHER_TESTS = $(wildcard tests/test_algorithms_*.py)
EXPERIMENT_TESTS = $(wildcard tests/test_reproductions_*.py)
CHECKED_CACHE := $(VENV)/kernels-boundscheck

# Who wants no bytecode beside the source gets it elsewhere: without any, each process of each cluster would
# compile all modules again.
ifdef PYTHONDONTWRITEBYTECODE
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX ?= $(abspath $(VENV))/bytecode
endif

help:
	@sed -n 's/^#   //p' Makefile

demo: $(VENV)/.installed-demo
	$(BIN)/pubsub-cluster demo flights $(DEMO_FLAGS)

# Three on two processors: many tests wait for processes.
test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n 3 -m "not slow" $(addprefix --ignore=,$(MATCHER_TESTS) $(EXPERIMENT_TESTS)) $(PYTEST_FLAGS)

matchers: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n 2 -m "not slow" $(MATCHER_TESTS) $(EXPERIMENT_TESTS) $(PYTEST_FLAGS)

slow: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m slow $(PYTEST_FLAGS)

faults: $(VENV)/.installed-dev
	$(BIN)/python tests/faults/run.py --minutes $(MINUTES)

MINUTES ?= 2

durable-faults: $(VENV)/.installed-dev
	$(BIN)/python tests/faults/durable.py --kills $(KILLS)

KILLS ?= 50,50

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

# Documents that are generated from the code; docs-check fails when one of them is stale.
docs: $(VENV)/.installed-dev
	$(BIN)/python -m pubsub_cluster.shm.columns
	$(BIN)/python -m pubsub_cluster.cli.reference
	$(BIN)/python -m pubsub_cluster.cli.configuration
	$(BIN)/python -m pubsub_cluster.benchmarks.figures

docs-check: $(VENV)/.installed-dev
	$(BIN)/python -m pubsub_cluster.shm.columns --check
	$(BIN)/python -m pubsub_cluster.cli.reference --check
	$(BIN)/python -m pubsub_cluster.cli.configuration --check
	$(BIN)/python -m pubsub_cluster.benchmarks.figures --check

# The same tests three ways: as plain Python under coverage, compiled, and compiled with bounds checks.
# Coverage is taken of the same examples every time: what chance finds is no measure.
kernels: $(VENV)/.installed-dev
	HYPOTHESIS_PROFILE=same NUMBA_DISABLE_JIT=1 $(BIN)/coverage run --branch --source=workers/kernels -m pytest -q $(KERNEL_TESTS)
	$(BIN)/coverage report --show-missing --fail-under=$(KERNEL_COVERAGE)
	$(BIN)/python -m pytest -q $(KERNEL_TESTS)
	NUMBA_BOUNDSCHECK=1 PUBSUB_CLUSTER_CACHE=$(abspath $(CHECKED_CACHE)) $(BIN)/python -m pytest -q $(KERNEL_TESTS)

matcher-kernels: $(VENV)/.installed-dev
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q $(MATCHER_TESTS)
	NUMBA_BOUNDSCHECK=1 PUBSUB_CLUSTER_CACHE=$(abspath $(CHECKED_CACHE)) $(BIN)/python -m pytest -q $(MATCHER_TESTS)

KERNEL_COVERAGE := 90

# The wheel, installed where nothing of this folder can be seen, starts a cluster and matches an event.
wheel-check: $(VENV)/.installed-dev
	.ci/wheel-check $(BIN)/python

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage demo-output

# -- set-up: a virtual environment, and an editable install that is repeated when pyproject.toml changes --

$(BIN)/python:
	@.ci/make-venv $(VENV) $(PYTHON)

$(VENV)/.installed-demo: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[demo]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[dev,demo,connect,reproduce]'
	@touch $(VENV)/.installed-demo $@
