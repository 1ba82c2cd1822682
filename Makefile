# Everything runs in .venv, made by the first target that needs it. Only Python's venv and pip are assumed.
PYTHON ?= python3
PORT ?= 8000
SECONDS ?= 60
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
UV := $(shell command -v uv 2>/dev/null)
GROUPS := --group test --group lint --group docs
SUITES := $(wildcard tests/unit tests/integration tests/docs)
BENCHMARKS := $(filter-out benchmarks/_%,$(wildcard benchmarks/*.py))

# Two stamps: serving needs the package alone, everything else needs the development tools too.
PACKAGE := $(VENV)/.package
TOOLS := $(VENV)/.tools

.DEFAULT_GOAL := help
.PHONY: help setup run test check cov acceptance peers chaos bench docs constraints clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

$(PACKAGE): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Bascule needs Python 3.11 or newer, but $(PYTHON) is " + sys.version.split()[0] + ". Name another one: make PYTHON=python3.12 ...")'
	@test -x $(BIN)/python && $(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	@$(if $(UV),$(UV) pip install --quiet --python $(BIN)/python --constraint constraints.txt --editable . ||) \
	  { $(PIP) install --quiet --upgrade 'pip>=25.1' && $(PIP) install --quiet --constraint constraints.txt --editable .; }
	@touch $@

$(TOOLS): $(PACKAGE)
	@$(if $(UV),$(UV) pip install --quiet --python $(BIN)/python --constraint constraints.txt $(GROUPS) ||) \
	  { $(PIP) install --quiet --upgrade 'pip>=25.1' && $(PIP) install --quiet --constraint constraints.txt $(GROUPS); }
	@touch $@

setup: $(TOOLS) ## Install the package and the development tools into .venv

run: $(PACKAGE) ## Serve examples/quickstart.py on 127.0.0.1 (PORT=8000)
	$(BIN)/bascule serve examples/quickstart.py --port $(PORT)

test: $(TOOLS) ## Run the unit, integration and docs tests in parallel (ARGS=)
	$(BIN)/python -m pytest -n auto --dist worksteal --inline-snapshot=disable $(SUITES) $(ARGS)

check: $(TOOLS) ## Format, lint, types, layers, sizes, spelling, dependencies
	@failed=; PATH="$(CURDIR)/$(BIN):$$PATH"; \
	for tool in "ruff format --check ." "ruff check ." pyright "pyright --verifytypes bascule --ignoreexternal" mypy "lint-imports --no-logo" "loq check" codespell "deptry bascule"; do \
	  echo "== $$tool"; $$tool || failed="$$failed, $$tool"; \
	done; \
	test -z "$$failed" || { echo "make check failed:$${failed#,}"; exit 1; }

cov: $(TOOLS) ## Run the tests with branch coverage and print the report (ARGS=)
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n auto --dist worksteal --inline-snapshot=disable $(SUITES) $(ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

acceptance: $(TOOLS) ## Drive the app with real clients, as a user runs it (ARGS=)
	$(BIN)/python -m pytest --timeout=300 -n auto --dist worksteal tests/acceptance -m "not peers" $(ARGS)

peers: $(TOOLS) ## Drive real coding agents over ACP (ARGS=)
	$(BIN)/python -m pytest --timeout=600 tests/acceptance -m peers $(ARGS)

chaos: $(TOOLS) ## Kill processes and cut connections for a while (SECONDS=60)
	BASCULE_CHAOS_SECONDS=$(SECONDS) $(BIN)/python -m pytest --timeout=0 tests/chaos $(ARGS)

bench: $(TOOLS) ## Run every benchmark; each prints JSON
	@for file in $(BENCHMARKS); do echo "== $$file" >&2; $(BIN)/python $$file --json || exit 1; done

docs: $(TOOLS) ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

constraints: $(TOOLS) ## Resolve all dependencies again and rewrite constraints.txt
	$(BIN)/python .ci/constraints.py

clean: ## Remove the environment, caches and build results
	rm -rf $(VENV) build dist site htmlcov .cache .loq_cache .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
