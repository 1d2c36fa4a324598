# The commands of this project. Each installs its requirements; `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
BIN := .venv/bin
ANSIBLE := ansible/.venv/bin
SOURCES := gpushare samples testbed release tools components policy tests docs ansible/extensions ansible/plugins __main__.py
YAML := .github .pre-commit-config.yaml .yamllint Pulumi.yaml Pulumi.example.yaml ansible components examples inventories policy \
    testbed tests
PROSE := *.md ansible/*.md ansible/playbooks ansible/roles inventories

# Before anything is installed for real components.
NEED_LINUX = $(if $(filter Linux,$(shell uname -s)),,$(error the testbed and its tests run on Linux only))

# The virtual environment requires packages that another prerequisite installs.
.NOTPARALLEL:

# The tests start thousands of Python processes: their bytecode is always written, to one folder.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/.pycache

.PHONY: help
help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-19s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.venv/.synced: pyproject.toml uv.lock .ci/bootstrap
	@.ci/bootstrap

.PHONY: setup
setup: .venv/.synced ## Create .venv with all tools and console scripts; installs no system packages

ansible/.venv/.synced: .venv/.synced ansible/pyproject.toml ansible/uv.lock ansible/legacy/pyproject.toml ansible/legacy/uv.lock
	@.ci/bootstrap ansible

.PHONY: setup-ansible
setup-ansible: ansible/.venv/.synced ## Create ansible/.venv with ansible-core 2.19 and tools, and ansible/legacy/.venv with 2.16

.PHONY: packages packages-all packages-demo
packages: ## Install the system packages of `make test` with apt; never removes or upgrades a package
	$(NEED_LINUX)@.ci/packages test

packages-all: ## Install the system packages of `make test-all` with apt
	$(NEED_LINUX)@.ci/packages all

packages-demo:
	$(NEED_LINUX)@.ci/packages demo

.PHONY: demo
demo: packages-demo setup ## Run end-to-end scenarios of the ACK documentation on a real control plane
	@$(BIN)/python -m testbed.demo

.PHONY: lint
lint: setup ## Check style, types, import contracts, spelling and vocabulary
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/ruff format --check --quiet $(SOURCES)
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/codespell $(PROSE) $(SOURCES)
	@$(BIN)/yamllint --strict $(YAML)
	@$(BIN)/python -m tools.vocabulary

.PHONY: lint-ansible
lint-ansible: setup-ansible ## Lint roles, playbooks and inventories with the profile production
	@cd ansible && ANSIBLE_COLLECTIONS_PATH=$(CURDIR) PATH=$(CURDIR)/$(ANSIBLE):$$PATH ansible-lint -q

# Examples of property tests: "check" uses a few fixed ones, "full" more and random ones.
PROFILE ?= check
WORKERS := 2
# SHORT=1 leaves out the long tests, SINCE=<commit> those that no change since it concerns: tests/tiers.toml.
TIER = $(if $(SHORT),--short) $(if $(SINCE),--since=$(SINCE))
PYTEST = $(BIN)/pytest -q -n $(WORKERS) --hypothesis-profile=$(PROFILE)

# Unit tests wait for sockets and short deadlines half of their time: two workers for each of two cores.
check: WORKERS := 4
.PHONY: check
check: lint ## Run the fast checks: lint, types, layers, unit and property tests
	@$(PYTEST) tests/unit tests/property tests/contract tests/components tests/monitoring tests/repository

.PHONY: unit
unit: setup ## Run the tests of one package; PKG=<folder in tests/unit>, with property tests for PKG=scheduling
	$(if $(and $(PKG),$(wildcard tests/unit/$(PKG))),,$(error PKG="$(PKG)" is no package; use make unit PKG=<name> \
	    with one of: $(patsubst tests/unit/%/,%,$(wildcard tests/unit/*/))))
	@$(BIN)/pytest -q --hypothesis-profile=$(PROFILE) tests/unit/$(PKG) $(if $(filter scheduling,$(PKG)),tests/property)

.PHONY: process
process: packages setup setup-ansible ## Run tests that start processes or compile
	@$(PYTEST) $(TIER) tests/process

.PHONY: check-ansible
check-ansible: setup-ansible ## Run the tests of the Ansible modules, plugins and inventories
	@$(ANSIBLE)/pytest -q -n 2 -p no:cacheprovider $(TIER) tests/ansible

.PHONY: native
native: packages setup ## Run the tests of the isolation library on a stub of the driver, with sanitizers
	@$(BIN)/pytest -q -n 2 $(TIER) tests/isolation

.PHONY: mutants
mutants: packages setup setup-ansible ## Break safety rules one by one: a test must notice each; NAME=<names> selects them. Weekly
	@$(BIN)/python -m tools.mutants $(NAME)

.PHONY: gpu
gpu: setup ## Run the tests on a physical GPU, with the frameworks of GPU_PYTHON; skipped without one
	@$(BIN)/pytest -q -rA tests/gpu

.PHONY: reference
reference: setup ## Generate the pages of docs/reference from code, and the plots of docs/benchmarks from results
	@$(BIN)/python -W ignore::DeprecationWarning -m docs.generate
	@$(BIN)/python -m tools.plots

.PHONY: snapshots
snapshots: setup ## Write the objects of the test stacks into tests/components/snapshots
	@$(BIN)/python -m tests.components.snapshot

.PHONY: role-docs
role-docs: setup ## Generate the README of each role from its argument_specs.yml
	@$(BIN)/python -m tools.role_docs

.PHONY: collection-modules
collection-modules: setup ## Copy modules of gpushare/ into the Ansible collection
	@$(BIN)/python -m tools.collection_modules

.PHONY: collection
collection: setup-ansible collection-modules ## Build the tarball of the Ansible collection in dist/
	@$(ANSIBLE)/ansible-galaxy collection build --force --output-path dist ansible

AT_ONCE := 2
.PHONY: molecule
molecule: packages setup setup-ansible ## Test the roles on real systemd hosts; SCENARIO=<names> selects scenarios
	@$(BIN)/python -m tools.molecule --at-once $(AT_ONCE) $(SCENARIO)

.PHONY: docs
docs: setup ## Build the documentation; warnings are errors
	@$(BIN)/sphinx-build -q -W --keep-going docs docs/_build/html

# Half of their time these tests wait, for reboots, leases and pods: three workers keep two cores busy.
.PHONY: integration
integration: WORKERS := 3
integration: packages setup setup-ansible ## Run the tests on real control planes and from images; SHORT=1 or SINCE=<commit> leaves long ones out
	@$(BIN)/pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=15 $(TIER) \
	    tests/integration tests/e2e

.PHONY: programs programs-all
programs: setup
	@$(BIN)/python -m testbed bin --short >/dev/null
programs-all: setup
	@$(BIN)/python -m testbed bin --all >/dev/null

.PHONY: newest-tools
newest newest-tools: export TESTBED_KUBERNETES := 1.37
newest-tools: packages setup ## Build the programs of the newest Kubernetes
	@$(BIN)/python -m testbed bin --all >/dev/null

.PHONY: newest
newest: newest-tools ## Run the integration tests that depend on the release of Kubernetes on the newest one
	@$(BIN)/pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m kubernetes -k "not 1.22" tests/integration

.PHONY: faults
faults: packages setup ## Run the tests of the fault table, and write docs/reference/faults.md from their results
	@$(BIN)/python -m tools.faults

.PHONY: compatibility
compatibility: setup ## Write docs/reference/compatibility.md and the times of test files from a run of `make test`; RESULTS=<its GPUSHARE_RESULTS>
	@$(BIN)/python -m tools.compatibility $(or $(RESULTS),$(error name the folder of results: make $@ RESULTS=<folder>))
	@$(BIN)/python -m tools.results $(RESULTS) --seconds tests/support/seconds.json

.PHONY: test
test: packages setup setup-ansible ## Run the tests of every change; SINCE=<commit> adds long tests of what changed
	@$(BIN)/python -m tools.run_tests $(if $(SINCE),--since=$(SINCE))

.PHONY: test-all
test-all: packages-all setup setup-ansible ## Run all tests
	@$(BIN)/python -m tools.run_tests --all

.PHONY: bench-extender
bench-extender: packages setup ## Measure filter idle and under load, memory, cold start, and pods per second; FLAGS="--help"
	@$(BIN)/python -m tests.bench.extender $(FLAGS)

.PHONY: bench-flood
bench-flood: packages setup ## Measure filter latency while strangers flood the scheduler's port
	@$(BIN)/python -m tests.bench.flood

.PHONY: bench-device-plugin
bench-device-plugin: packages setup ## Measure Allocate latency, start, memory and idle cost of the node agent
	@$(BIN)/python -m tests.bench.device_plugin

.PHONY: bench-isolation
bench-isolation: packages setup ## Measure the overhead of the preloaded library and its compute shares; GPU=1: on a physical GPU
	@$(BIN)/python -m tests.bench.isolation $(if $(GPU),--gpu)

.PHONY: bench-shares
bench-shares: packages setup ## Measure the compute shares of several kinds of programs on the stub driver
	@$(BIN)/python -m tests.bench.compute_shares

.PHONY: bench-models
bench-models: setup ## Measure two servers of one model on a GPU, in 12 minutes; GPU=1, GPU_PYTHON=<Python with PyTorch> FLAGS="--help"
	@$(BIN)/python -m tests.bench.models $(if $(GPU),--gpu) $(FLAGS)

.PHONY: bench-placement
bench-placement: setup ## Simulate how many pods a cluster refuses, and how many GPUs stay empty, by placement policy
	@$(BIN)/python -m tests.bench.placement

.PHONY: bench-exporter
bench-exporter: packages setup ## Measure scrape time, memory and cost of the exporter
	@$(BIN)/python -m tests.bench.exporter

.PHONY: bench-metrics-api
bench-metrics-api: packages setup ## Measure the time until an HPA has the metrics of 512 pods
	@$(BIN)/python -m tests.bench.metrics_api

.PHONY: bench-pulumi
bench-pulumi: packages setup ## Measure preview, up and destroy of the full stack with the real engine, and import time
	@$(BIN)/python -m tests.bench.pulumi

.PHONY: bench-install
bench-install: packages setup setup-ansible ## Measure the commands of the page "Install"; about 20 minutes, as root
	@$(BIN)/python -m tests.bench.install

.PHONY: bench-preflight
bench-preflight: packages setup setup-ansible ## Measure the preflight of 200 hosts compared with `ansible -m setup`
	@$(BIN)/python -m tests.bench.preflight

.PHONY: images
images: setup ## Build all images and write images.json; REGISTRY=… BASE_IMAGE=… PLATFORMS=… PUSH=1
	@$(BIN)/python -m release

.PHONY: print-digests
print-digests: setup
	@$(BIN)/python -m release.supply digests

.PHONY: sbom
sbom: setup ## Write the SBOM of each image to dist/ (CycloneDX)
	@$(BIN)/python -m release.supply sbom

.PHONY: sign
sign: setup ## Sign the pushed images and their SBOMs by digest; requires cosign
	@$(BIN)/python -m release.supply sign

.PHONY: release
release: setup setup-ansible collection-modules images ## Build what is installed (wheel, YAML, chart, collection, plugins) to dist/; TAG=v…
	@$(BIN)/python -m release.bundle

.PHONY: sign-release
sign-release: setup ## Sign the checksums in dist/; requires cosign
	@$(BIN)/python -m release.supply sign-release

.PHONY: check-tag
check-tag: setup ## Check that TAG is that of the version, has a changelog, and is on the main branch
	@$(BIN)/python -m release.version --tag "$$TAG"

.PHONY: publish-release
publish-release: setup ## Create the release TAG on GitHub from dist/, and push the chart; requires gh and skopeo
	@$(BIN)/python -m release.publish

# The language host of Pulumi runs uv from PATH; `make setup` links it in this folder.
PULUMI_PATH = $(CURDIR)/$(BIN):$$PATH
# Packs of rules for every object; their violations stop `preview` and `up`.
POLICY_PACKS ?= policy
PULUMI_FLAGS = $(addprefix --policy-pack=,$(POLICY_PACKS)) --non-interactive --stack "$$STACK"
NEED_STACK = $(if $(STACK),,$(error name a stack: make $@ STACK=<name>))

.PHONY: preview
preview: setup ## Show what `make up` would change; STACK=<name>
	$(NEED_STACK)
	@PATH="$(PULUMI_PATH)" pulumi preview --diff $(PULUMI_FLAGS)

.PHONY: up
up: setup ## Deploy a stack to its cluster; STACK=<name>
	$(NEED_STACK)
	@PATH="$(PULUMI_PATH)" pulumi up --yes --skip-preview $(PULUMI_FLAGS)

.PHONY: board-pictures
board-pictures: packages setup ## Take the pictures of the board in the documentation, in Chromium
	@$(BIN)/python -m tests.process.cli.board.pictures

PICTURES := dist/dashboards
.PHONY: dashboard-pictures
dashboard-pictures: packages setup ## Draw the dashboards with Grafana's packages, in Chromium; PICTURES=<folder>; needs npm
	@$(BIN)/python -m tests.monitoring.pictures $(PICTURES)

.PHONY: monitoring
monitoring: setup ## Generate rules, alerts and dashboards in components/monitoring
	@$(BIN)/python -W ignore::DeprecationWarning -m tools.monitoring_files

.PHONY: generate
generate: setup ## Generate gRPC messages and stubs of the kubelet from the .proto files
	@$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. --grpc_python_out=. gpushare/adapters/kubelet/api/*.proto

.PHONY: cgroup-v2
cgroup-v2: packages setup ## Run tests with kubelets on a machine with cgroup v2 only, in 5 minutes; TESTS=<pytest arguments>, DEMO=1
	@$(BIN)/python -m tests.cgroup_v2 $(if $(DEMO),--demo) $(TESTS)

MINUTES := 30
.PHONY: soak
soak: packages setup ## Load and random faults on the whole stack, then compare all records; SEED=<number> MINUTES=<number>
	@$(BIN)/python -m tests.soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

.PHONY: clean
clean: ## Remove generated files from the checkout; keeps the cache outside
	@rm -rf .pycache .venv policy/.venv ansible/.venv ansible/.ansible ansible/legacy/.venv docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
