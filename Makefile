# The same commands for people and for CI. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# Where it is set, every server and every worker of the tests would compile all modules once more.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
# One more than that takes a quarter less time, and tests that watch a moment miss it more often.
WORKERS ?= $(shell nproc 2>/dev/null || echo 2)
PYTEST := $(BIN)/python -m pytest
ARGS ?=

.PHONY: help setup packages fmt lint house check unit test test-all contracts faults agents parity docs demo perf clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: packages $(VENV)/.ready ## Make .venv and install what is needed, where that is allowed

packages:
	@scripts/install-packages.sh scripts/debian-packages.txt

$(VENV)/.ready: pyproject.toml scripts/make-venv.sh | packages
	@scripts/make-venv.sh $(VENV)
	@touch $@

fmt: setup ## Format the code and repair what can be repaired
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

house: setup
	$(PYTEST) tests/house -q

check: setup ## Lint, formatting, types and the rules of the house
	@$(MAKE) -j2 --output-sync=target lint house

unit: setup ## Tests that only compute: no root, no server, no devbox; about a minute
	$(PYTEST) -n $(WORKERS) -m unit -q $(ARGS)

# The trees of all modules that the rules of the house look at would stay in the memory of a worker.
test: check ## Everything `check` does, then every test but the slow ones
	@PART_OF_THE_TESTS="$(ARGS)" scripts/run-tests.sh $(BIN)/python $(WORKERS) --ignore=tests/house -m "not slow" $(ARGS)

test-all: check ## The slow tests too: every client, driver and mode
	@PART_OF_THE_TESTS="$(ARGS)" scripts/run-tests.sh $(BIN)/python $(WORKERS) --ignore=tests/house $(ARGS)

contracts: setup ## The contract suite against every driver and mode of this machine, slow tests too
	$(PYTEST) tests/contracts $(ARGS)

faults: setup ## Twenty seeds of kills at random moments; `make test` has a short form of it
	BENCHYARD_FAULT_SEEDS=$${SEEDS:-20} $(PYTEST) tests/faults -n $(WORKERS) $(ARGS)

agents: setup ## Every public agent, real, over all of quickstart with a scripted model; `make test` has one each
	BENCHYARD_ALL_AGENTS=1 $(PYTEST) tests/e2e $(ARGS)

parity: setup ## Real samples of the public benchmarks, all that this machine can; writes docs/parity.md
	rm -rf .pytest_cache/parity
	BENCHYARD_PARITY=1 $(PYTEST) tests/benchmarks tests/scorers/graders $(ARGS)
	$(BIN)/python -m tests.parity --write

docs: setup ## Write the derived parts of the reference pages
	$(BIN)/python -m tests.docs.reference

demo: setup ## Create devboxes, branch them, and compare two agents by a job, in front of you
	@PATH="$(CURDIR)/$(BIN):$$PATH" scripts/demo.sh

perf: setup ## Measure devboxes against bubblewrap and podman; writes docs/performance.md
	@scripts/install-packages.sh scripts/debian-packages-perf.txt
	$(BIN)/python -m perf --write $(ARGS)

clean: ## Remove the virtual environment and every cache
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
