# The commands of this project. Each sets up what it needs; `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
BIN := .venv/bin
SOURCES := gpushare testbed tests docs

.PHONY: help
help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.venv/.synced: pyproject.toml uv.lock
	@.ci/bootstrap

.PHONY: setup
setup: .venv/.synced ## Make .venv with all tools and the console scripts

.PHONY: demo
demo: setup ## Play the stories of the source documents on a real control plane
	@$(BIN)/python -m testbed.demo

.PHONY: lint
lint: setup
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/ruff format --check --quiet $(SOURCES)
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/codespell *.md $(SOURCES)
	@$(BIN)/yamllint --strict .

.PHONY: check
check: lint ## The quick loop: lint, types, layers, unit and property tests
	@$(BIN)/pytest -q -n 2 tests/unit tests/property tests/contract

.PHONY: docs
docs: setup ## Build the documentation, warnings are errors
	@$(BIN)/sphinx-build -q -W --keep-going docs docs/_build/html

.PHONY: integration
integration: setup ## Tests on real control planes
	@$(BIN)/pytest -q tests/integration

.PHONY: test
test: setup ## Everything; tools are built in the background meanwhile
	@.ci/test

.PHONY: bench-extender
bench-extender: setup ## Filter latency, memory, cold start, pods per second against a plain scheduler
	@$(BIN)/python -m tests.bench.extender

.PHONY: clean
clean: ## Remove what the commands made in the checkout; the cache outside stays
	@rm -rf .venv docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
