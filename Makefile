# The commands of this project. Each installs its requirements; `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
BIN := .venv/bin
ANSIBLE := ansible/.venv/bin
SOURCES := gpushare samples devkit testbed release tools components policy tests docs ansible/extensions ansible/plugins __main__.py
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
help:
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } /^[a-z0-9-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' \
	    $(firstword $(MAKEFILE_LIST))

##@ Try

.PHONY: demo
demo: packages-demo setup ## Run end-to-end scenarios of the ACK documentation on a real control plane; DEMO=board opens a cluster to explore
	@$(BIN)/python -m testbed.demo

##@ Use

.PHONY: images
images: setup ## Build all images and write images.json; REGISTRY=… BASE_IMAGE=… PLATFORMS=… REFRESH=1 PUSH=1
	@$(BIN)/python -m release

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

.PHONY: drift
drift: setup ## Fail if a cluster is not as its stack says; changes nothing; STACK=<name>
	$(NEED_STACK)
	@PATH="$(PULUMI_PATH)" pulumi preview --refresh --expect-no-changes --diff $(PULUMI_FLAGS)

.PHONY: up
up: setup ## Deploy a stack to its cluster; STACK=<name>
	$(NEED_STACK)
	@PATH="$(PULUMI_PATH)" pulumi up --yes --skip-preview $(PULUMI_FLAGS)

# How many nodes may be not ready, a number or a percentage, and how long a rollout may take.
MAX_UNREADY ?= 10%
WAIT ?= 60m
.PHONY: ready
ready: setup ## Wait for the nodes of a stack after `make up`; STACK=<name> MAX_UNREADY=10% WAIT=60m
	$(NEED_STACK)
	@PATH="$(PULUMI_PATH)" $(BIN)/python -m components.ready --stack "$$STACK" --max-unready "$(MAX_UNREADY)" --wait "$(WAIT)"

.PHONY: collection
collection: setup-ansible ## Build the tarball of the Ansible collection in dist/
	@$(ANSIBLE)/ansible-galaxy collection build --force --output-path dist ansible

# Before the images, which take minutes.
.PHONY: release-urls
release-urls:
	@: $${RELEASE_URL:?set it to the URL of the folder with the archives} $${IMAGE_SOURCE:?set it to the URL of the repository}

.PHONY: release
release: release-urls setup setup-ansible images ## Build what is installed (wheel, YAML, chart, collection, plugins) to dist/; RELEASE_URL=… IMAGE_SOURCE=… TAG=v…
	@$(BIN)/python -m release.bundle

##@ Develop

.venv/.synced: pyproject.toml uv.lock .ci/bootstrap
	@.ci/bootstrap

# The Ansible collection cannot import gpushare, so it has copies of some modules. They are not in git.
COPIES := ansible/plugins/plugin_utils/gpushare/contract.py
$(COPIES): .venv/.synced tools/collection_modules.py gpushare/*.py gpushare/model/*.py gpushare/kubescheduler/*.py
	@$(BIN)/python -m tools.collection_modules

# The kernel of the placement policy `replay`. Without a compiler everything else works.
KERNEL := .venv/lib/gpushare/libgpushare-replay.so
NATIVE := gpushare/adapters/replay/native
$(KERNEL): .venv/.synced $(wildcard $(NATIVE)/*)
	@$(MAKE) -s -C $(NATIVE) OUT=$(CURDIR)/$(@D) && touch $@ || \
	    echo "setup: gcc cannot build $@: the placement policy replay is not available" >&2

.PHONY: setup
setup: .venv/.synced $(COPIES) $(KERNEL) ## Create .venv with all tools and console scripts; installs no system packages

ansible/.venv/.synced: .venv/.synced $(foreach each,ansible ansible/legacy ansible/newest,$(each)/pyproject.toml $(each)/uv.lock)
	@.ci/bootstrap ansible

# ansible-core 2.19 and tools, ansible/legacy/.venv with 2.16, and with Python 3.12 or later ansible/newest/.venv.
.PHONY: setup-ansible
setup-ansible: ansible/.venv/.synced $(COPIES)

.PHONY: packages packages-all packages-demo
packages: ## Install the system packages of `make test` with apt; never removes or upgrades one
	$(NEED_LINUX)@.ci/packages test

packages-all:
	$(NEED_LINUX)@.ci/packages all

packages-demo:
	$(NEED_LINUX)@.ci/packages demo

.PHONY: lint
lint: setup ## Check style, types, import contracts, spelling and terms
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
check: lint ## Run the fast checks: lint, then unit, property, contract, component, monitoring and repository tests
	@$(PYTEST) tests/unit tests/property tests/contract tests/components tests/monitoring tests/repository

.PHONY: test
test: packages setup setup-ansible ## Run the tests of every change; SINCE=<commit> adds long tests of what changed
	@$(BIN)/python -m tools.suite.run $(if $(SINCE),--since=$(SINCE))

.PHONY: test-all
test-all: packages-all setup setup-ansible ## Run all tests
	@$(BIN)/python -m tools.suite.run --all

.PHONY: test-unit
test-unit: setup ## Run the tests of one package; PKG=<folder in tests/unit>, with property tests for PKG=scheduling
	$(if $(and $(PKG),$(wildcard tests/unit/$(PKG))),,$(error PKG="$(PKG)" is no package; use make $@ PKG=<name> \
	    with one of: $(patsubst tests/unit/%/,%,$(wildcard tests/unit/*/))))
	@$(BIN)/pytest -q --hypothesis-profile=$(PROFILE) tests/unit/$(PKG) $(if $(filter scheduling,$(PKG)),tests/property)

.PHONY: test-cli
test-cli: packages setup setup-ansible ## Run tests that start the programs as processes, or compile
	@$(PYTEST) $(TIER) tests/process

.PHONY: test-ansible
test-ansible: setup-ansible ## Run the tests of the Ansible modules, plugins and inventories
	@$(ANSIBLE)/pytest -q -n 2 -p no:cacheprovider $(TIER) tests/ansible

.PHONY: test-isolation
test-isolation: packages setup ## Run the tests of the isolation library on a stub of the driver, with sanitizers
	@$(BIN)/pytest -q -n 2 $(TIER) tests/isolation

.PHONY: test-gpu gpu
test-gpu: setup ## Run the tests on a physical GPU, with the frameworks of GPU_PYTHON; skipped without one
	@$(BIN)/pytest -q -rA tests/gpu

gpu: test-gpu

# Half of their time these tests wait, for reboots, leases and pods: three workers keep two cores busy.
.PHONY: test-integration
test-integration: WORKERS := 3
test-integration: packages setup setup-ansible ## Run the tests on real control planes and from images; SHORT=1 or SINCE=<commit> leaves long ones out
	@$(BIN)/pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=15 $(TIER) \
	    tests/integration tests/e2e

AT_ONCE := 2
.PHONY: test-molecule
test-molecule: packages setup setup-ansible ## Test the roles on real systemd hosts; SCENARIO=<names> selects scenarios
	@$(BIN)/python -m tools.molecule --at-once $(AT_ONCE) $(SCENARIO)

# A part has a target of its own, generate-<part>; PART=<parts> selects some.
PART_OF_GENERATE := $(or $(PART),monitoring snapshots reference roles grpc)
.PHONY: generate
generate: $(addprefix generate-,$(PART_OF_GENERATE)) ## Write the generated files of the checkout; PART=monitoring, snapshots, reference, roles, grpc

GENERATOR := $(BIN)/python -W ignore::DeprecationWarning -m
.PHONY: generate-monitoring generate-snapshots generate-reference generate-roles generate-grpc
# Rules, alerts and dashboards in components/monitoring.
generate-monitoring: setup
	@$(GENERATOR) tools.monitoring_files

# The objects of the stacks of tests/components.
generate-snapshots: setup
	@$(GENERATOR) tests.components.snapshot

# The pages of docs/reference from code, and the plots of docs/benchmarks from results.
generate-reference: setup
	@$(GENERATOR) docs.generate
	@$(GENERATOR) tools.plots

# The README of each role from its argument_specs.yml.
generate-roles: setup
	@$(GENERATOR) tools.role_docs

# Messages of the kubelet from the .proto files.
generate-grpc: setup
	@$(GENERATOR) grpc_tools.protoc -I. --python_out=. --pyi_out=. gpushare/adapters/kubelet/api/*.proto

.PHONY: docs
docs: setup ## Build the documentation; warnings are errors; DOCS_SOURCE=<URL> links each page to its source
	@$(BIN)/sphinx-build -q -W --keep-going docs docs/_build/html

.PHONY: clean
clean: ## Remove generated files from the checkout; keeps the cache outside
	@rm -rf .pycache .venv policy/.venv ansible/plugins/plugin_utils/gpushare ansible/.venv ansible/.ansible ansible/legacy/.venv ansible/newest/.venv docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

##@ Maintain

# The programs of the testbed that `make test` and `make test-all` build first.
.PHONY: programs programs-all programs-next
programs: setup
	@$(BIN)/python -m testbed bin --short >/dev/null
programs-all: setup
	@$(BIN)/python -m testbed bin --all >/dev/null
programs-next test-k8s-next: export TESTBED_KUBERNETES := 1.37
programs-next: packages setup
	@$(BIN)/python -m testbed bin --all >/dev/null

.PHONY: test-k8s-next
test-k8s-next: programs-next ## Run the integration tests that depend on the release of Kubernetes on the newest one
	@$(BIN)/pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m kubernetes -k "not 1.22" tests/integration

.PHONY: test-cgroup-v2
test-cgroup-v2: packages setup ## Run tests with kubelets on a machine with cgroup v2 only, in 5 minutes; TESTS=<pytest arguments>, DEMO=1
	@$(BIN)/python -m tests.cgroup_v2 $(if $(DEMO),--demo) $(TESTS)

.PHONY: test-faults
test-faults: packages setup ## Run the tests of the fault table, and write docs/project/faults.md from their results
	@$(BIN)/python -m tools.faults

MINUTES := 30
.PHONY: test-soak
test-soak: packages setup ## Load and random faults on the whole stack, then compare all records; SEED=<number> MINUTES=<number>
	@$(BIN)/python -m tests.soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

.PHONY: mutants
mutants: packages setup setup-ansible ## Break safety rules one by one: a test must notice each; NAME=<names> selects them. Weekly
	@$(BIN)/python -m tools.mutants $(NAME)

BENCHES := compute-shares device-plugin exporter extender flood install isolation metrics-api models placement preflight pulumi replay
.PHONY: bench
bench: setup $(if $(filter models placement,$(PART)),,packages) $(if $(filter install preflight,$(PART)),setup-ansible)
bench: ## Measure one part; PART=<extender, device-plugin, …>, GPU=1: on a physical GPU, FLAGS=--help
	$(if $(filter $(BENCHES),$(PART)),,$(error PART="$(PART)" is no benchmark; use make $@ PART=<name> with one of: $(BENCHES)))
	@$(BIN)/python -m tests.bench.$(subst -,_,$(PART)) $(if $(GPU),--gpu) $(FLAGS)

.PHONY: bench-placement
bench-placement: setup ## Compare placement policies on the traces of FOLDER, beside published results; LIVE=1: on a real control plane, FLAGS=--help
	$(if $(FOLDER),,$(error make $@ FOLDER=<folder with openb_node_list_gpu_node.csv and openb_pod_list_*.csv>))
	@nice -n 10 $(BIN)/python -m tests.bench.$(if $(LIVE),placement_live,traces) $(FOLDER) $(FLAGS)

PICTURES := dist/dashboards
.PHONY: pictures pictures-board pictures-dashboards pictures-demo
pictures: $(addprefix pictures-,$(or $(PART),board dashboards demo)) ## Take the pictures of the documentation; PART=board, dashboards (needs npm; PICTURES=<folder>), demo

pictures-board: packages setup
	@$(BIN)/python -m tests.process.cli.board.pictures

# Drawn with Grafana's packages.
pictures-dashboards: packages setup
	@$(BIN)/python -m tests.monitoring.pictures $(PICTURES)

pictures-demo: packages-demo setup
	@$(BIN)/python -m tools.recording
	@$(BIN)/python docs/terminal.py
