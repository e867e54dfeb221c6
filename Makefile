# Needs Python 3.11+ and Node 20+, nothing else. `make help` lists the targets.
PYTHON ?= python3
WORKFLOW ?=

VENV := .venv
BIN := $(VENV)/bin
SETUP := $(VENV)/.project node_modules/.setup
CODE := app.py bench examples functions infra local tests

export PATH := $(CURDIR)/$(BIN):$(CURDIR)/node_modules/.bin:$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help setup test lint unit e2e demo up down docs bench-cost faults faults-long permissions lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(SETUP) ## Create .venv and node_modules from the locks

$(VENV)/.packages: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; name one with PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes --only-binary=:all: -r requirements.txt
	@touch $@

$(VENV)/.project: $(VENV)/.packages pyproject.toml
	$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

node_modules/.setup: package.json package-lock.json .npmrc
	npm ci --no-fund --no-audit --loglevel=error
	@touch $@

test: lint unit e2e ## Static checks, then every test

lint: $(SETUP) ## Format, rules, types and import contracts
	ruff check .
	ruff format --check .
	mypy $(wildcard $(CODE))
	lint-imports --no-logo

unit: $(SETUP)
	pytest --ignore=tests/e2e

# One emulator and one deployment serve the whole directory, so these run in one process.
e2e: $(SETUP)
	pytest --numprocesses=0 tests/e2e

demo: $(SETUP) ## Deploy to the embedded AWS, crash, resume, judge; WORKFLOW=file runs another DAG
	python -m local.demo $(if $(WORKFLOW),--workflow "$(WORKFLOW)")

up: $(SETUP) ## Start the embedded AWS with all stacks deployed
	python -m local.stack up

down: $(SETUP) ## Stop what `make up` started
	python -m local.stack down

docs: $(SETUP) ## Render the generated parts of README.md and docs/ again
	JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=20 python -m local.docs

bench-cost: $(SETUP) ## Measure the write and read units per node: build/reports/cost.json
	python -m bench.cost

faults: $(SETUP) ## Models, crash points, guards, random worlds: build/reports/faults.json
	python -m bench.faults

faults-long: $(SETUP) ## A million random worlds; interrupt it and it goes on from there
	python -m bench.faults --long

permissions: $(SETUP) ## Evaluate every role offline: build/reports/permissions.json
	python -m tests.iam.report

# UV_DEFAULT_INDEX and the pip settings of the machine stay out of the files.
COMPILE = uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--custom-compile-command 'make lock' $(LOCK_FLAGS)

lock: $(SETUP) ## Resolve the .in files again; LOCK_FLAGS=--upgrade takes newer versions
	$(COMPILE) -o requirements.txt requirements.in
	$(COMPILE) -c requirements.txt -o functions/requirements.txt functions/requirements.in
	$(COMPILE) -c requirements.txt -o examples/requirements.txt examples/requirements.in
	npm install --package-lock-only --loglevel=error

clean: ## Remove everything that can be made again
	rm -rf $(VENV) node_modules build cdk.out .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
