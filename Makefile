# `make demo` shows the main job, `make test` passes the tests; both set up everything they need.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint check soak bench clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	touch $@

demo: $(STAMP)
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/quickstart/demo.sh

lint: $(STAMP)
	$(BIN)/ruff check reconciler tests
	$(BIN)/ruff format --check reconciler tests
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint check

check: $(STAMP)
	$(BIN)/pytest -n auto -m "not soak and not bench"

soak: $(STAMP)
	$(BIN)/pytest -n auto -m soak

bench: $(STAMP)
	$(BIN)/pytest -m bench --benchmark-enable --benchmark-only --benchmark-json=benchmarks.json
	$(BIN)/python tests/bench/growth.py benchmarks.json

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .hypothesis benchmarks.json
