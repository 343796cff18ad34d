# Needs python3, 3.11 or later, with venv and pip. All else is installed into .venv on first use, and again when
# pyproject.toml changes, by pip 25.1, the first that knows groups. With another interpreter, as in
# make test PYTHON=python3.13, it is .venv-python3.13. ARGS goes to pytest: make test ARGS="-k cleanup"

PYTHON ?= python3
VENV := .venv$(if $(filter-out python3,$(PYTHON)),-$(notdir $(PYTHON)))
BIN := $(VENV)/bin
READY := $(VENV)/installed
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: help venv demo test test-all test-rest test-faults clients resend torture soak campaign simulate simulate-faults faults fuzz bench dist docs pictures lint audit format clean

help:
	@echo "make demo      the main job on 336,776 real flights, with a kill, a recovery and a report"
	@echo "make test      the tests; PYTHON=python3.13 with another interpreter, in an environment of its own"
	@echo "make test-faults  makes each deliberate fault, and says which of the tests nearest to it finds it: FAULT=name for one, ARGS=--list"
	@echo "make campaign  the long campaigns: many seeds, many kills"
	@echo "make simulate  worlds made from seeds, with crashes and faults: SEEDS=n, WORLD=engine, queues, threads, broker or backup, FIRST=seed"
	@echo "make simulate-faults  faults made on purpose, to see that the simulation finds each of them"
	@echo "make faults    each file call of the C library fails in its turn: MINUTES=n for a share of them"
	@echo "make fuzz      inputs that coverage leads to, at every decoder; SECONDS=60 of each, TARGET=footer for some, api and callers for calls"
	@echo "make resend    writers with threads, killed, killed again at their start, sending again: RUNS=n"
	@echo "make torture   real brokers and clients, killed, stopped, overtaken, without room: MINUTES=n, ARGS=\"--seed n\""
	@echo "make soak      real load for MINUTES=n, with memory, descriptors, threads and files watched"
	@echo "make clients   the test suites of foreign STOMP clients, in SUITES=DIR (docs/reference/stomp-clients.md)"
	@echo "make bench     the benchmarks, as a table; ARGS=--quick for a look, ARGS=--readme for six figures in two minutes"
	@echo "make dist      sdist and wheel into dist/, the wheel tried in an empty environment of each interpreter that is there"
	@echo "make docs      the site of the documents, into build/site/html"
	@echo "make pictures  the pictures of the documents, made again: what the command, the console and the report look like"
	@echo "make lint      format, lint, types and layers, checked"
	@echo "make audit     ask for known holes in what is installed; needs the network"
	@echo "make format    format and fix what can be fixed"
	@echo "make venv      the virtual environment .venv, with all that the others need"
	@echo "make clean     remove .venv and everything else that was made"

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or later is needed: make PYTHON=...")'
	@echo "installing into $(VENV)"
	$(PYTHON) -m venv $(VENV)
	$(PIP) install "pip>=25.1"
	$(PIP) install --editable ".[all]" --group dev
	@touch $@

venv: $(READY)

demo: $(READY)
	$(BIN)/oms demo

# The tests start hundreds of processes. Where the environment forbids to keep bytecode, each would compile us anew.
test test-all test-rest test-faults campaign: export PYTHONDONTWRITEBYTECODE :=

# A processor takes a whole file, for what its tests share; the order of the files is that of tests/long_files.py.
PYTEST := $(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder
test: $(READY)
	$(PYTEST) $(ARGS)

test-all: $(READY)
	$(PYTEST) -m "not slow" $(ARGS)

test-rest: $(READY)
	$(PYTEST) -m "whole and not slow" $(ARGS)

test-faults: $(READY)
	$(BIN)/python -m tests.planted $(FAULT) $(ARGS)

campaign: $(READY)
	$(BIN)/python -m pytest -m slow -o faulthandler_timeout=0 $(ARGS)

SEEDS ?= 100
FIRST ?= 0
simulate: $(READY)
	$(BIN)/python -m tests.simulation --seeds $(SEEDS) --first $(FIRST) $(if $(WORLD),--world $(WORLD)) $(ARGS)

simulate-faults: $(READY)
	$(BIN)/python -m tests.simulation --faults $(ARGS)
	$(BIN)/python -m tests.api --faults
	$(BIN)/python -m tests.callers --faults

faults: $(READY)
	$(BIN)/python -m tests.faults --minutes $(or $(MINUTES),120) $(ARGS)

fuzz: $(READY)
	@test "$(TARGET)" = api -o "$(TARGET)" = callers || $(BIN)/python -c "import atheris" 2>/dev/null || $(PIP) install --group fuzz
	$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),60) $(TARGET)

resend: $(READY)
	$(BIN)/python -m tests.resending --runs $(or $(RUNS),2000) $(ARGS)

torture: $(READY)
	$(BIN)/python -m tests.campaign --minutes $(or $(MINUTES),10) $(ARGS)

soak: $(READY)
	$(BIN)/python -m tests.campaign.soak --minutes $(or $(MINUTES),10)

clients: $(READY)
	@$(BIN)/python -c "import pytest_mock, pytest_ordering" 2>/dev/null || $(PIP) install --group clients
	$(BIN)/python -m tests.clients $(SUITES) $(ARGS)

bench: $(READY)
	$(BIN)/python -m bench $(ARGS)

dist: $(READY)
	$(BIN)/python -m tests.support.distribution $(PYTHON) python3.11 python3.12 python3.13 python3.14

docs: $(READY)
	$(BIN)/python -m tests.docs.site

pictures: $(READY)
	$(BIN)/python -m tests.docs.pictures $(ARGS)

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

audit: $(READY)
	$(PIP) install pip-audit
	$(BIN)/pip-audit --skip-editable

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .venv-* build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks oms-demo-report simulation-failures
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
