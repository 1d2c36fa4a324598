# The commands of this project. Each sets up what it needs; `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
BIN := .venv/bin
ANSIBLE := ansible/.venv/bin
SOURCES := gpushare testbed release tools components policy tests docs ansible/extensions ansible/plugins __main__.py
PROSE := *.md ansible/*.md ansible/playbooks ansible/roles inventories

# A virtual environment needs packages that another prerequisite installs.
.NOTPARALLEL:

# The tests start thousands of Python processes. What they import is compiled once, whatever the caller prefers,
# and kept in one folder.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/.pycache

.PHONY: help
help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.venv/.synced: pyproject.toml uv.lock .ci/bootstrap
	@.ci/bootstrap

.PHONY: setup
setup: .venv/.synced ## Make .venv with all tools and the console scripts; installs no system package

ansible/.venv/.synced: .venv/.synced ansible/pyproject.toml ansible/uv.lock ansible/legacy/pyproject.toml ansible/legacy/uv.lock
	@.ci/bootstrap ansible

.PHONY: setup-ansible
setup-ansible: ansible/.venv/.synced ## Make ansible/.venv: ansible-core 2.19 and its tools, and 2.16 beside it

.PHONY: packages packages-demo
packages: ## Install the system packages of the tests (apt, never removing one)
	@.ci/packages test

packages-demo:
	@.ci/packages demo

.PHONY: demo
demo: packages-demo setup ## Play the stories of the source documents on a real control plane
	@$(BIN)/python -m testbed.demo

.PHONY: lint
lint: setup
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/ruff format --check --quiet $(SOURCES)
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/codespell $(PROSE) $(SOURCES)
	@$(BIN)/yamllint --strict .
	@$(BIN)/python -m tools.vocabulary

.PHONY: lint-ansible
lint-ansible: setup-ansible ## Lint roles, playbooks and inventories; profile production
	@cd ansible && ANSIBLE_COLLECTIONS_PATH=$(CURDIR) PATH=$(CURDIR)/$(ANSIBLE):$$PATH ansible-lint -q

# How long property tests search: "check" takes the same few examples each time, "full" more and new ones.
PROFILE ?= check
PYTEST := $(BIN)/pytest -q -n 2 --hypothesis-profile=$(PROFILE)

.PHONY: check
check: lint ## The quick loop: lint, types, layers, unit and property tests
	@$(PYTEST) tests/unit tests/property tests/contract tests/components tests/monitoring

.PHONY: unit
unit: setup ## Tests of one package alone; PKG=<folder in tests/unit>, with property tests for PKG=scheduling
	@$(BIN)/pytest -q --hypothesis-profile=$(PROFILE) tests/unit/$${PKG:?name a package: make unit PKG=scheduling} \
	    $(if $(filter scheduling,$(PKG)),tests/property)

.PHONY: process
process: packages setup ## Tests that start processes or compile
	@$(PYTEST) tests/process

.PHONY: check-ansible
check-ansible: setup-ansible ## Tests of the collection's modules, plugins and inventories
	@$(ANSIBLE)/pytest -q -n 2 -p no:cacheprovider tests/ansible

.PHONY: native
native: packages setup ## The isolation library under programs that know nothing of it, on a stub of the driver
	@$(BIN)/pytest -q -n 2 tests/isolation

.PHONY: gpu
gpu: setup ## The library on a real card, under frameworks that GPU_PYTHON has; skipped where there is none
	@$(BIN)/pytest -q -rA tests/gpu

.PHONY: role-docs
role-docs: setup ## Make the README of each role from its argument_specs.yml
	@$(BIN)/python -m tools.role_docs

.PHONY: collection-modules
collection-modules: setup ## Copy the modules of gpushare/ that the collection carries
	@$(BIN)/python -m tools.collection_modules

.PHONY: collection
collection: setup-ansible collection-modules ## Build the tarball of the collection in dist/
	@$(ANSIBLE)/ansible-galaxy collection build --force --output-path dist ansible

.PHONY: molecule
molecule: packages setup setup-ansible ## The roles on real systemd hosts; SCENARIO=<names> for some of them
	@$(BIN)/python -m tools.molecule $(SCENARIO)

.PHONY: docs
docs: setup ## Build the documentation, warnings are errors
	@$(BIN)/sphinx-build -q -W --keep-going docs docs/_build/html

.PHONY: integration
integration: packages setup ## Tests on real control planes, and of the whole system from images
	@$(BIN)/pytest -q -n 2 --dist loadfile --durations=15 tests/integration tests/e2e

.PHONY: test
test: packages setup ## Everything; tools are built in the background meanwhile
	@.ci/test

.PHONY: bench-extender
bench-extender: packages setup ## Filter latency, memory, cold start, pods per second against a plain scheduler
	@$(BIN)/python -m tests.bench.extender

.PHONY: bench-device-plugin
bench-device-plugin: packages setup ## Allocate latency, start, memory and idle cost of the node agent
	@$(BIN)/python -m tests.bench.device_plugin

.PHONY: bench-isolation
bench-isolation: packages setup ## What the preloaded library costs, and the parts of a card's time that it gives
	@$(BIN)/python -m tests.bench.isolation

.PHONY: bench-exporter
bench-exporter: packages setup ## Scrape time, memory and cost of the exporter
	@$(BIN)/python -m tests.bench.exporter

.PHONY: bench-metrics-api
bench-metrics-api: packages setup ## Time until an HPA has the numbers of 512 pods
	@$(BIN)/python -m tests.bench.metrics_api

.PHONY: bench-pulumi
bench-pulumi: packages setup ## Preview, up and destroy of the full stack under the real engine, import time
	@$(BIN)/python -m tests.bench.pulumi

.PHONY: bench-preflight
bench-preflight: packages setup setup-ansible ## The preflight of 200 hosts against a bare `ansible -m setup` of the same
	@$(BIN)/python -m tests.bench.preflight

.PHONY: images
images: setup ## Build all images, write images.json; REGISTRY=… BASE_IMAGE=… PLATFORMS=… PUSH=1
	@$(BIN)/python -m release

.PHONY: print-digests
print-digests: setup
	@$(BIN)/python -m release.supply digests

.PHONY: sbom
sbom: setup ## List the Python packages of each image in dist/ (CycloneDX)
	@$(BIN)/python -m release.supply sbom

.PHONY: sign
sign: setup ## Sign the pushed images and their package lists by digest; needs cosign
	@$(BIN)/python -m release.supply sign

# Pulumi's language host looks for uv on the PATH; `make setup` puts a link to it here.
PULUMI_PATH = $(CURDIR)/$(BIN):$$PATH

.PHONY: preview
preview: setup ## What `make up` would change; STACK=<name>
	@PATH="$(PULUMI_PATH)" pulumi preview --diff --non-interactive --stack "$${STACK:?name a stack: make preview STACK=…}"

.PHONY: up
up: setup ## Deploy to a cluster; STACK=<name>
	@PATH="$(PULUMI_PATH)" pulumi up --yes --skip-preview --non-interactive --stack "$${STACK:?name a stack: make up STACK=…}"

.PHONY: monitoring
monitoring: setup ## Make rules, alerts and dashboards in components/monitoring
	@$(BIN)/python -W ignore::DeprecationWarning -m tools.monitoring_files

.PHONY: generate
generate: setup ## Make the kubelet's gRPC messages and stubs from their .proto files
	@$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. --grpc_python_out=. gpushare/adapters/kubelet/api/*.proto

.PHONY: soak-device-plugin
soak-device-plugin: packages setup ## Five minutes of pods that come and go on a real kubelet, all books compared
	@GPUSHARE_SOAK_S=300 $(BIN)/pytest -q -s tests/integration/test_device_plugin_churn.py

.PHONY: clean
clean: ## Remove what the commands made in the checkout; the cache outside stays
	@rm -rf .pycache .venv policy/.venv ansible/.venv ansible/.ansible ansible/legacy/.venv docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
