# Every target sets up .venv by itself; a second call finds it done.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint docs setup clean

demo: setup
	$(BIN)/dahgnn demo --out runs/demo

test: lint
	$(BIN)/python -m pytest

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The tests build the site, too; here it stays, to be read in site/index.html.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

setup: .venv/.done

# The stamp comes last, so that a set-up that was cut off starts again. The constraints hold for the
# build environment too (PIP_CONSTRAINT), which a plain --constraint would not reach.
.venv/.done: pyproject.toml constraints.txt setup.py $(wildcard src/dahgnn/kernels/cpu/*.cpp src/dahgnn/kernels/cpu/*.inl)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "dahgnn needs Python 3.11 or later; name one with: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	@echo "Install dahgnn, PyTorch and the tools into .venv: this takes some minutes, once."
	$(PYTHON) -m venv --clear .venv
	PIP_CONSTRAINT="$(CURDIR)/constraints.txt" $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

clean:
	rm -rf .venv build site .mypy_cache .pytest_cache .ruff_cache .hypothesis
