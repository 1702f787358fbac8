# What a person types. A fresh machine needs Python 3.11 or newer, make and git; nothing else.
# What runs the product is installed into $(VENV) from requirements.lock, what tests it from
# requirements-dev.lock on top, what builds the documentation from requirements-docs.lock; each once, when something
# first needs it, and again when its file changes.

PYTHON3 ?= python3
VENV ?= .venv
PYTHON := $(VENV)/bin/python
ANABRANCH := $(VENV)/bin/anabranch
READY := $(VENV)/.ready
DEV_READY := $(VENV)/.ready-dev
DOCS_READY := $(VENV)/.ready-docs
EXAMPLE := examples/dependencies

# Two at once: a small machine has two cores, and the tests that start databases need both.
TEST_WORKERS ?= 2
# Which tests, and any other flag of pytest: make test PYTEST="tests/spec -x"
PYTEST ?=

COMPILE := uv pip compile pyproject.toml --quiet --universal --python-version 3.11 \
	--no-emit-index-url --no-emit-find-links --no-header --no-annotate
PIP_INSTALL := $(PYTHON) -m pip install --disable-pip-version-check

# Four hours of simulation: more than 100 million steps where two cores make 7,000 a second.
SOAK_SECONDS ?= 14400

.DEFAULT_GOAL := help
.PHONY: help setup demo dev docs pages editor pictures editor-types test tools check check-python check-pages format bench bench-check simulate chaos mutants stress borders installs soak lock clean

help: ## list what can be made
	@sed -n 's/^\([a-z-]*\):.*## /make \1\t/p' Makefile | expand -t 18

setup: $(DEV_READY) ## install everything into .venv (the other targets do it by themselves)

demo: $(READY) ## run the example workflow and watch it; it waits 20 seconds for a signal of yours
	$(ANABRANCH) run $(EXAMPLE)/workflow.json --import $(EXAMPLE)/nodes.py --input @$(EXAMPLE)/input.json --watch

dev: pages ## start a server with the workflow editor and the example, on http://127.0.0.1:8321 and SQLite in .anabranch
	$(ANABRANCH) dev --import $(EXAMPLE)/nodes.py --workflow $(EXAMPLE)/workflow.json

docs: $(DOCS_READY) ## build the documentation site into build/site; stops at a dead link or anchor
	@NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict --clean
	@echo "The site is in build/site; $(PYTHON) -m mkdocs serve shows it and follows changes."

pages: $(READY) ## build the pages of the server from editor/, unless they are there; installs Node where the machine has none
	@$(PYTHON) editor/build.py bundle

editor: $(READY) ## work on the pages: show those of a running server (`make dev`, ANABRANCH_URL) and follow each change
	@$(PYTHON) editor/build.py serve

pictures: $(DEV_READY) pages tools ## take the pictures of docs/pictures anew, in a browser before a server of their own
	@$(PYTHON) -m tests.gallery.page
	@$(PYTHON) -m tests.browser.pictures

editor-types: $(READY) ## generate the REST client of the pages from our OpenAPI document
	@$(PYTHON) editor/build.py types

test: check tools pages ## run the checks and all tests; installs a browser and Node for some of them where the machine has none
	$(PYTHON) -m pytest -n $(TEST_WORKERS) $(PYTEST)

tools: $(DEV_READY)
	@$(PYTHON) -m tests.tools

check: $(DEV_READY) ## formatting, lint, types, layers: before each commit
	@$(MAKE) --no-print-directory -j2 check-python check-pages

check-python: $(DEV_READY)
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy anabranch
	$(PYTHON) -m mypy --config-file tests/mypy.ini tests benchmarks
	$(PYTHON) -m pytest -q tests/architecture

check-pages: $(DEV_READY)
	$(PYTHON) editor/build.py check

format: $(DEV_READY) ## let ruff put the files into shape
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .

bench: tools pages ## measure speed and growth on both databases, and write benchmarks/README.md; some ten minutes
	$(PYTHON) -m benchmarks

bench-check: $(DEV_READY) ## has the hot path become dearer? counted, so that a slow machine cannot fail it
	$(PYTHON) -m benchmarks.check

simulate: $(DEV_READY) ## simulate the engine for two minutes on virtual time with all its faults, and hunt the mutants; SEED= repeats
	$(PYTHON) -m tests.simulation $(if $(SEED),--first-seed $(SEED))

chaos: $(DEV_READY) ## kill, freeze and cut off every part of a real installation, and count what it did; a quarter of an hour; SEED= repeats
	$(PYTHON) -m tests.chaos $(if $(SEED),--seed $(SEED))
	$(PYTHON) -m tests.chaos.upgrade
	$(PYTHON) -m tests.chaos.point_in_time
	ANABRANCH_TEST_ALL_CASES=1 $(PYTHON) -m pytest -q tests/transport/test_conformance.py

mutants: $(DEV_READY) ## change lines of the product at random and see whether the tests notice; ten minutes; SEED= repeats
	$(PYTHON) -m tests.mutants $(if $(SEED),--seed $(SEED))

stress: $(DEV_READY) ## run a thousand workflows and judge each: make stress ARGS="linear --count 5000 --store sqlite --kills 3"
	$(PYTHON) -m tests.stress $(ARGS)

borders: $(DEV_READY) tools ## compare how saved SQL is cut with real servers, on 100,000 texts each; minutes; SEED= varies
	$(if $(SEED),ANABRANCH_BORDER_SEED=$(SEED) )ANABRANCH_BORDER_TEXTS=100000 $(PYTHON) -m pytest -q -s tests/handlers/queries/test_borders.py

installs: $(DEV_READY) pages ## install the wheel with uvx, pipx and pip from the package index, and run a workflow with each; minutes
	$(PYTHON) -m tests.pages.installs

soak: $(DEV_READY) ## simulate, judge random graphs and kill processes for a night
	$(PYTHON) -m tests.simulation --seconds $(SOAK_SECONDS)
	ANABRANCH_ORACLE_GRAPHS=50000 $(PYTHON) -m pytest -q tests/oracle/test_random_graphs.py
	ANABRANCH_OPENAPI_EXAMPLES=50 $(PYTHON) -m pytest -q --timeout 7200 tests/rest/test_openapi.py
	$(PYTHON) -m tests.chaos --soak

lock: $(READY) ## pin the newest versions that pyproject.toml allows (needs uv on the PATH)
	$(COMPILE) --group build --upgrade -o requirements.lock
	$(COMPILE) --group dev --upgrade --constraint requirements.lock -o requirements-dev.lock
	$(COMPILE) --group docs --upgrade --constraint requirements-dev.lock -o requirements-docs.lock

clean: ## remove what was installed, built or cached; keeps .anabranch, where runs are stored
	rm -rf $(VENV) tests/javascript/node_modules editor/node_modules examples/executor-node/node_modules anabranch/pages/bundle build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps are touched last, so that an interrupted installation is taken up again. The project
# itself is installed without build isolation: its build tool is in the lock like the rest. It is compiled
# ahead, for where PYTHONDONTWRITEBYTECODE is set each command would compile 300 files again.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON3) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "anabranch needs Python 3.11 or newer, and $(PYTHON3) is $$($(PYTHON3) --version 2>&1)."; \
		echo "Install a newer one and name it: make PYTHON3=python3.12 setup"; exit 1; }
	@echo "Making a virtual environment in $(VENV)."
	@$(PYTHON3) -m venv $(VENV)
	@echo "Installing $$(grep -c == requirements.lock) packages into it; the first time that takes a minute or two."
	@$(PIP_INSTALL) --requirement requirements.lock
	@$(PIP_INSTALL) --quiet --no-build-isolation --no-deps --editable .
	@$(PYTHON) -m compileall -q anabranch
	@echo "anabranch is installed: $(ANABRANCH) --help"
	@touch $@

$(DEV_READY): requirements-dev.lock $(READY)
	@echo "Installing what tests and checks need besides: $$(grep -c == requirements-dev.lock) packages in all."
	@$(PIP_INSTALL) --requirement requirements-dev.lock
	@touch $@

$(DOCS_READY): requirements-docs.lock $(READY)
	@echo "Installing what builds the documentation."
	@$(PIP_INSTALL) --quiet --requirement requirements-docs.lock
	@touch $@
