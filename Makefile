# Every command of the project. `make help` lists them; nothing here needs more than Python and make.

.DEFAULT_GOAL := help
.PHONY: bench help setup demo test test-postgres test-services test-browser chaos lint types fmt promises lock wheel clean

VENV ?= .venv
BIN := $(VENV)/bin
# The first interpreter on the PATH that is new enough.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
# uv is used when it is there; venv and pip do the same work, only slower.
UV := $(shell command -v uv 2>/dev/null || ls $(BIN)/uv 2>/dev/null)
JOBS ?= 2
# Tests of one group share what is dear to start, so each group stays in one process.
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup

# What the service tier talks to; each may point elsewhere.
export TEST_DATABASE_URL ?= postgres://postgres@127.0.0.1:5432/sayso
export TEST_REDIS_URL ?= redis://127.0.0.1:6379/9
export TEST_AMQP_URL ?= amqp://guest:guest@127.0.0.1:5672//

RUNTIME := $(VENV)/.runtime-installed
DEV := $(VENV)/.dev-installed

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(DEV) ## Make the environment with everything for developing

demo: $(RUNTIME) ## Run Sayso on this machine, no server needed (CHECK=1: unattended, then stop)
	$(BIN)/python manage.py demo $(if $(CHECK),--check) $(ARGS)

test: $(DEV) ## Run the fast tests: SQLite and the in-memory broker (ARGS="-k name" to choose)
	$(PYTEST) -m "not services and not browser" $(ARGS)
	@$(BIN)/python -m tests.tiers left

test-postgres: $(DEV) ## Run the fast tests on PostgreSQL
	DATABASE_URL="$(TEST_DATABASE_URL)" $(PYTEST) -m "not services and not browser" $(ARGS)

test-services: $(DEV) ## Run the tests that need PostgreSQL, Redis, RabbitMQ; fails if one is missing
	$(BIN)/python -m tests.tiers check
	DATABASE_URL="$(TEST_DATABASE_URL)" $(PYTEST) -m services $(ARGS)

test-browser: $(DEV) ## Run the tests that look at the pages in headless Chromium
	$(BIN)/python -m pytest -m browser $(ARGS)

chaos: $(DEV) ## Kill, stop and cut everything at random and check what is left (SEED, MINUTES, BROKER)
	$(BIN)/python -m tests.chaos --seed $(or $(SEED),1) --minutes $(or $(MINUTES),2) \
		--broker $(or $(BROKER),redis)

bench: $(DEV) ## Measure WHAT=run, storm, kill, size … (benchmarks/README.md; ARGS="--help")
	$(BIN)/python -m benchmarks.$(or $(WHAT),run) $(ARGS)

sim: $(DEV) ## Play COUNT random histories of jobs and trees against the invariants (SEED=n, FIRST=n)
	$(BIN)/python -m tests.simulation.histories $(or $(SEED),$(shell date +%s)) $(or $(COUNT),2000) $(FIRST)

lint: $(DEV) ## Check style, formatting and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python docs/promises.py --check

types: $(DEV) ## Check the types
	$(BIN)/mypy

fmt: $(DEV) ## Format the code and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

promises: $(DEV) ## Write docs/promises.md anew from the tests' markers
	$(BIN)/python docs/promises.py

COMPILE = $(UV) pip compile -q --universal --python-version 3.11 --no-emit-index-url --no-header \
	--generate-hashes --extra postgres --extra openai --extra anthropic

lock: ## Resolve the dependencies anew and write both lock files (needs uv; UPGRADE=1 for newer ones)
	@test -n "$(UV)" || { echo "make lock needs uv: $(BIN)/pip install uv"; exit 1; }
	$(COMPILE) $(if $(UPGRADE),--upgrade) -o requirements.lock pyproject.toml
	$(COMPILE) $(if $(UPGRADE),--upgrade) --group dev -c requirements.lock -o requirements-dev.lock \
		pyproject.toml

wheel: $(DEV) ## Build the wheel into var/dist
	$(BIN)/python -m build --no-isolation --wheel --outdir var/dist
	rm -rf build sayso.egg-info

clean: ## Remove caches and build results, keep the environment and the data in var
	rm -rf build sayso.egg-info var/dist var/test.sqlite3* .pytest_cache .mypy_cache .ruff_cache \
		.import_linter_cache .hypothesis
	find . -name __pycache__ -type d -not -path "./$(VENV)/*" -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed."; exit 1; }
	$(if $(UV),$(UV) venv -q --seed --python $(PYTHON) $(VENV),$(PYTHON) -m venv $(VENV)) || { \
		echo "On Debian, python3 -m venv needs: apt install python3-venv"; rm -rf $(VENV); exit 1; }

# pip and uv both refuse a package whose hash the lock does not know, and compile what they install.
INSTALL = $(if $(UV),$(UV) pip install -q --compile-bytecode --python $(BIN)/python,$(BIN)/python -m pip install \
	--disable-pip-version-check --no-input --no-deps) --require-hashes -r

$(RUNTIME): requirements.lock | $(BIN)/python
	$(INSTALL) requirements.lock
	@touch $@

$(DEV): requirements-dev.lock requirements.lock | $(BIN)/python
	$(INSTALL) requirements-dev.lock
	@touch $(RUNTIME) $@
