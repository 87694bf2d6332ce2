# make demo : recompute a published figure into out/
# make explore : move sliders in the browser
# make test : every check
# make docs : the documentation
# make golden : numbers of every command, compared with those recorded
# Each creates .venv on first use. Another interpreter: make PYTHON=python3.12 test

PYTHON ?= python3
OUT ?= out

BIN := .venv/bin
# Only a part of what is installed is ever imported: bytecode is written then, and not of all modules at once.
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-compile --constraint constraints.txt
export PYTHONDONTWRITEBYTECODE :=
# Half of what tests and galleries do is compiling: programs are kept for the next run and for each other.
COMPILED := JAX_COMPILATION_CACHE_DIR="$(CURDIR)/build/compiled" JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0
# One process per core, each with one thread: threads that wait for each other cost more than they bring.
PYTEST := $(COMPILED) OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal
DOCS := $(COMPILED) $(BIN)/sphinx-build -W --keep-going -q -b html
INPUTS := pyproject.toml constraints.txt
REFERENCE := $(wildcard ../shared/reference)
BENCHMARKS := $(sort $(wildcard benchmarks/bench_*.py))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo explore test suite types fast thorough golden docs checked-docs bench dist oldest newest format clean

help:
	@echo "make demo    recompute a published figure: PNG, CSV and summary in $(OUT)/"
	@echo "make explore move sliders in the browser; ARGS=attention, for example, begins there"
	@echo "make test    every check: lint, format, types, all tests"
	@echo "make docs    the documentation, in docs/_build/html"
	@echo "make fast    the tests not marked slow, some minutes"
	@echo "make thorough  the other tests: rare cases, many seeds, long runs"
	@echo "make golden  numbers of 116 commands, compared with tests/golden/golden.json"
	@echo "make bench   how fast: every benchmarks/bench_*.py"
	@echo "make dist    wheel and sdist in dist/, built twice and compared, and the wheel tried in a new environment"
	@echo "make oldest  all tests with the oldest supported versions of what is depended on"
	@echo "make newest  all tests with the newest versions, and the newest Python that there is"
	@echo "make format  format the code"
	@echo "make clean   remove the environment, results and caches"

demo: .venv/.ready-run
	@# Exit code 3: the figure is there, and a run at this finite size did not settle; the summary names it.
	$(BIN)/glassformer figure bsr-1 --out "$(OUT)" $(if $(REFERENCE),--reference "$(REFERENCE)") || [ $$? -eq 3 ]

explore: .venv/.ready-explore
	$(BIN)/glassformer explore $(ARGS)

test: .venv/.ready-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@# Types and documentation take one core each for a minute; beside the tests that core is not idle.
	@$(MAKE) --no-print-directory --jobs=3 suite types checked-docs

suite: .venv/.ready-test
	$(PYTEST) -m "not thorough"

types: .venv/.ready-test
	$(BIN)/mypy

docs: .venv/.ready-test
	$(DOCS) docs docs/_build/html
	@echo "written to docs/_build/html"

checked-docs: .venv/.ready-test
	@# The same pages without those of the sources, and without numbers in the longest tutorial.
	$(DOCS) -t checked docs docs/_build/checked

fast: .venv/.ready-test
	$(PYTEST) -m "not slow and not thorough" tests

thorough: .venv/.ready-test
	$(PYTEST) -m thorough

golden: .venv/.ready-run
	OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/golden/golden.py

bench: .venv/.ready-bench
	@set -e; for script in $(BENCHMARKS); do echo "== $$script"; $(BIN)/python "$$script"; done

# The time that archives are stamped with: that of the last change, so that the same sources make the same bytes.
EPOCH := $(shell git log -1 --format=%ct 2>/dev/null || echo 1767225600)
dist: .venv/.ready-release
	@rm -rf dist build && mkdir build
	@for once in first second; do \
	  SOURCE_DATE_EPOCH=$(EPOCH) $(BIN)/python -m build --outdir build/$$once . >build/$$once.log 2>&1 || { cat build/$$once.log; exit 1; }; done
	@for file in build/first/*; do cmp "$$file" "build/second/$${file##*/}"; done
	@mv build/first dist
	@$(PYTHON) -m venv --clear build/clean
	@build/clean/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt dist/*.whl
	@cd build && clean/bin/python -c 'from importlib.resources import files; assert files("glassformer").joinpath("py.typed").is_file()'
	cd build && clean/bin/glassformer doctor
	@cd dist && sha256sum *

# The newest supported Python that there is, on the path or among those of pyenv.
NEWEST = $(shell for v in 3.13 3.12 3.11; do for p in python$$v "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/$$v*/bin/python$$v; do \
  "$$p" -c "" 2>/dev/null && echo "$$p" && exit; done; done)
oldest: CONSTRAINED := --constraint constraints-oldest.txt
newest: PYTHON = $(or $(NEWEST),python3)
oldest newest:
	@rm -rf build/$@
	@$(PYTHON) -m venv --clear build/$@
	@build/$@/bin/python -m pip --disable-pip-version-check install --quiet $(CONSTRAINED) \
	  --editable '.[cluster,explore,sklearn]' cvxpy hypothesis mpmath psutil pytest pytest-xdist
	OPENBLAS_NUM_THREADS=1 build/$@/bin/python -m pytest -n auto --maxprocesses 8 --dist worksteal -m "not thorough" \
	  -W ignore::DeprecationWarning $(ARGS)

format: .venv/.ready-test
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

clean:
	rm -rf .venv out build dist docs/_build docs/auto .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is removed before an install and written after it: it exists only when the install went through.
# A .venv without a working pip (an interrupted creation, a removed interpreter) is made anew.
.venv/.ready-run: $(INPUTS)
	@rm -f .venv/.ready-*
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "error: $(PYTHON) is missing or older than Python 3.11; name a newer one, for example: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	@echo "Installing into .venv; the first time takes a minute or two."
	@$(PIP) --editable .
	@touch $@

.venv/.ready-test .venv/.ready-bench .venv/.ready-explore .venv/.ready-release: .venv/.ready-%: .venv/.ready-run
	@rm -f $@
	@$(PIP) --editable '.[$*]'
	@touch $@
