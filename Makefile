# `make demo` shows the main job, `make test` passes the tests; both set up everything they need.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint parts built-where-possible check soak bench clean

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

# Real control planes and Prometheus, built once for each version of their modules (some ten minutes on two cores).
parts: $(STAMP)
	$(BIN)/python -m tests.real.binaries

# Where they cannot be built, their tests are skipped with the reason; in CI that is a failure.
built-where-possible: $(STAMP)
	@$(BIN)/python -m tests.real.binaries || [ "$$CI" != true ]

check: built-where-possible
	$(BIN)/pytest -n auto --dist loadgroup -m "not soak and not bench"

soak: built-where-possible
	$(BIN)/pytest -n auto --dist loadgroup -m soak

bench: built-where-possible
	$(BIN)/pytest -m bench --benchmark-enable --benchmark-only --benchmark-json=benchmarks.json
	$(BIN)/python tests/bench/growth.py benchmarks.json

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .hypothesis benchmarks.json
