# Two commands: `make demo` and `make test`.  Both set up what they need in .venv.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed

.PHONY: demo test lint types unit install pictures clean

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
	$(BIN)/python -m pytest

pictures: install  # all that are shown in README.md and docs/
	$(BIN)/python tools/make_pictures.py
	$(BIN)/python tools/make_theory_pictures.py
	$(BIN)/bilink theory describe wn18 --picture docs/theory_sizes.png
	$(BIN)/bilink demo --out runs/pictures --force
	$(BIN)/bilink ensemble runs/pictures/transe runs/pictures/distmult runs/pictures/rescal \
	  runs/pictures/hole runs/pictures/complex --out runs/pictures/all --force \
	  --picture docs/ensemble_weights.png
	$(BIN)/bilink study wang2018 --data wn18,fb15k --tables

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
