# Two commands: `make demo` and `make test`.  Each sets up what it needs in an environment.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed
PIP = -m pip install --quiet
# From Python 3.12 on, coverage costs nearly nothing; `make unit COVERAGE=` does without it.
COVERAGE = $(shell $(PYTHON) -c \
  "import sys; print('sysmon' if sys.version_info >= (3, 12) else 'ctrace')")
# What every installation can do, whatever the versions of its packages: load, train, rank, query.
BASIC = tests/data tests/models tests/training tests/evaluation tests/ensembles tests/queries \
  tests/runs tests/cli
# Interpreted kernels take a thousand times as long: small graphs only.
WITHOUT_JIT = tests/models tests/training/test_margin.py tests/training/test_optimizers.py \
  tests/training/test_softmax_kernels.py tests/evaluation/test_ranks.py -k 'not wherever_they_stand'

.PHONY: demo docs dist test lint types unit install page page-tools peers pictures clean
.PHONY: test-lowest test-without-extras test-without-jit

# The demo needs what `pip install .` brings and none of the development tools: 710 MB.
# Where those are installed already, it uses their environment.
DEMO = $(if $(wildcard $(STAMP)),$(STAMP),$(VENV)/.demo)

demo: $(DEMO)
	$(BIN)/bilink demo

$(VENV)/.demo: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) --upgrade pip
	$(BIN)/python $(PIP) --editable .
	touch $@

test: lint types unit

install: $(STAMP)

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) --upgrade pip
	$(BIN)/python $(PIP) --editable '.[dev]'
	touch $(STAMP)

docs: $(VENV)/.docs  # the site, in build/site; a warning is an error
	$(BIN)/python -m sphinx -W --keep-going --quiet -b html -c docs . build/site
	@echo "the site is in build/site/index.html"

$(VENV)/.docs: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) --upgrade pip
	$(BIN)/python $(PIP) --editable . --group docs
	touch $@

dist:  # wheel and sdist, checked; in dist
	rm -rf dist
	$(PYTHON) -m venv .venv-dist
	.venv-dist/bin/python $(PIP) --upgrade build twine
	.venv-dist/bin/python -m build --outdir dist .
	.venv-dist/bin/python -m twine check --strict dist/*
	.venv-dist/bin/python .ci/contents.py dist/*

peers: install  # PyKEEN, torch and PyTorch Geometric: tests and benchmarks compare with them
	$(BIN)/python $(PIP) --group peers

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy

ifeq ($(COVERAGE),)
unit: install
	$(BIN)/python -m pytest
else
unit: install
	COVERAGE_CORE=$(COVERAGE) $(BIN)/coverage run -m pytest
	@echo "The least covered files, without compiled kernels and what other processes run:"
	@$(BIN)/coverage report --skip-empty --sort=cover | sed -n 's:src/bilink/::; 1,12p'
	@echo "All together: $$($(BIN)/coverage report --format=total) %"
endif

test-lowest: VENV = .venv-lowest
test-lowest:  # the lowest versions that pyproject.toml allows, with the oldest Python
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python $(PIP) --upgrade pip
	$(BIN)/python .ci/lowest.py > $(VENV)/lowest.txt
	$(BIN)/python $(PIP) --constraint $(VENV)/lowest.txt \
	  --editable '.[rdf,plot,search,serve,ann]' pytest pytest-timeout hypothesis
	$(BIN)/python -m pytest -m 'not slow' $(BASIC)

test-without-extras: VENV = .venv-without-extras
test-without-extras:  # what `pip install bilink` brings
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python $(PIP) --upgrade pip
	$(BIN)/python $(PIP) --editable . pytest pytest-timeout hypothesis
	$(BIN)/python -m pytest -m 'not slow' -rs

test-without-jit: install  # kernels as Python runs them
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -m 'not slow' $(WITHOUT_JIT)

page: install page-tools  # the script of the page: lint, types, unit tests, the page in Chromium
	$(BIN)/python -m pytest tests/page tests/serving/test_reviewing_page.py

page-tools:  # what checks the page; users need none of it
	cd tools/page && npm install --no-package-lock --no-audit --no-fund

pictures: install  # all that are shown in README.md and docs/
	$(BIN)/python tools/make_pictures.py
	$(BIN)/python tools/make_theory_pictures.py
	$(BIN)/python tools/make_architecture.py
	$(BIN)/bilink theory describe wn18 --picture docs/theory_sizes.png
	$(BIN)/bilink demo --out runs/pictures --force
	$(BIN)/bilink ensemble runs/pictures/transe runs/pictures/distmult runs/pictures/rescal \
	  runs/pictures/hole runs/pictures/complex --out runs/pictures/all --force \
	  --picture docs/ensemble_weights.png
	$(BIN)/bilink study wang2018 --data wn18,fb15k --tables

clean:
	rm -rf $(VENV) .venv-* .coverage build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
