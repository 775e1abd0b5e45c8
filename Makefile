# `make demo` shows the main job, `make test` passes the tests; both set up everything they need.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

SEED ?= 0

# More options of pytest for `make test` and `make others`.
PYTEST ?=

# Tests start the command line hundreds of times, which is not to compile it each time.
unexport PYTHONDONTWRITEBYTECODE

OTHERS = lowest $(shell sh .ci/interpreters)

.PHONY: demo test lint docs parts built-where-possible check others others-ready soak mutants bench clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,lint]'
	$(BIN)/python -m compileall -q reconciler
	touch $@

demo: $(STAMP)
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/quickstart/demo.sh

lint: $(STAMP)
	$(BIN)/ruff check reconciler tests
	$(BIN)/ruff format --check reconciler tests
	$(BIN)/mypy
	$(BIN)/lint-imports

# Side by side: mypy has one processor for a while.
test: $(STAMP)
	@$(MAKE) --no-print-directory -j2 lint check

# The site, into build/docs. A broken link, or a page that the menu does not have, is an error (not with --quiet).
docs: .venvs/docs/.installed
	NO_MKDOCS_2_WARNING=1 .venvs/docs/bin/mkdocs build

# Real control planes and Prometheus, built once for each version of their modules (some ten minutes on two cores).
parts: $(STAMP)
	$(BIN)/python -m tests.real.binaries

# Tests are rewritten for their assertions and compiled once, not by each worker at the same time.
$(VENV)/.collected: $(STAMP)
	-@$(BIN)/pytest --collect-only -qq >/dev/null
	@touch $@

# Where they cannot be built, their tests are skipped with the reason; in CI that is a failure.
built-where-possible: $(STAMP)
	@$(BIN)/python -m tests.real.binaries || [ "$$CI" != true ]

check: built-where-possible $(VENV)/.collected
	$(BIN)/pytest $(PYTEST) -n auto --dist loadgroup --no-loadscope-reorder -m "not soak and not bench"

# With the lowest releases of all direct dependencies, and on every later interpreter that this machine has: what differs
# there shows in one case of each test, and in all of those about what a library reads or says (`every_case`). No real
# parts, and no laws.
others: $(OTHERS:%=again-%) docs

others-ready: $(OTHERS:%=.venvs/%/.installed) .venvs/docs/.installed

.PRECIOUS: .venvs/%/.installed

again-%: .venvs/%/.installed
	.venvs/$*/bin/python -m pytest $(PYTEST) --first-cases -m "not real and not laws and not soak and not bench"

.venvs/lowest/.installed: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check -c constraints-lowest.txt -e '.[test]'
	touch $@

.venvs/docs/.installed: pyproject.toml constraints.txt constraints-docs.txt
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -c constraints-docs.txt '.[docs]'
	touch $@

.venvs/%/.installed: pyproject.toml constraints.txt
	"$$(sh .ci/interpreters $*)" -m venv --clear $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	touch $@

soak: built-where-possible
	RECONCILER_LAWS=full $(BIN)/pytest -n auto --dist loadgroup --no-loadscope-reorder -m "soak or laws"
	$(MAKE) mutants

# Which small changes to the pure rooms no test notices; of a sample of them: `make mutants SAMPLE=600`.
mutants: $(STAMP)
	nice $(BIN)/python -m tests.mutation $(MUTATED) $(if $(SAMPLE),--sample $(SAMPLE)) --seed $(SEED) --fast

bench: built-where-possible
	$(BIN)/pytest -m bench --benchmark-enable --benchmark-only --benchmark-json=benchmarks.json
	$(BIN)/python tests/bench/growth.py benchmarks.json docs/performance.md

clean:
	rm -rf $(VENV) .venvs build dist .mypy_cache .ruff_cache .hypothesis benchmarks.json
