# Two commands: `make demo` and `make test`.  Both set up what they need in .venv.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed

.PHONY: demo test lint types unit install pictures clean test-lowest test-without-extras test-without-jit

demo: install
	$(BIN)/bilink demo

test: lint types unit

install: $(STAMP)

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(STAMP)

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy

unit: install
	$(BIN)/python -m coverage run -m pytest
	$(BIN)/python -m coverage report --skip-covered --sort=cover | head -14
	@$(BIN)/python -m coverage report --format=total | sed 's/^/coverage in percent: /'

# What CI runs beside `make test`, each in an environment of its own.
TOOLS = pytest pytest-timeout hypothesis httpx
SOME = tests/data tests/models tests/evaluation tests/runs tests/queries tests/ensembles

test-lowest:  # the lowest versions that pyproject.toml allows
	$(PYTHON) -m venv .venv-lowest
	$(PYTHON) .ci/lowest.py > .venv-lowest/constraints.txt
	.venv-lowest/bin/python -m pip install --quiet --editable '.[rdf,plot,search,serve]' $(TOOLS) \
	  --constraint .venv-lowest/constraints.txt
	.venv-lowest/bin/python -m pytest $(SOME)

test-without-extras:
	$(PYTHON) -m venv .venv-plain
	.venv-plain/bin/python -m pip install --quiet --editable . $(TOOLS)
	.venv-plain/bin/python -m pytest $(SOME)

test-without-jit: install  # kernels as plain Python
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest tests/models/test_contract.py tests/models/test_scorer.py \
	  tests/evaluation/test_ranks.py tests/training/test_margin.py tests/test_without_jit.py

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
	rm -rf $(VENV) .venv-lowest .venv-plain .coverage build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
