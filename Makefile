# The two commands of the README are `make run` and `make test`; each sets up .venv by itself.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
ARGS   ?=
# Twice as many as cores, as tests wait for the processes that they start.
WORKERS = $(shell expr 2 '*' $$(nproc))
PYTEST  = $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=10
# Checks lint and types beside a command, prints their output at the end, and fails where one of them does.
BESIDE_LINT = beside() { $(MAKE) -k lint types > .mypy_cache/output 2>&1 & "$$@"; tests=$$?; wait $$!; lint=$$?; \
	cat .mypy_cache/output; exit $$((tests ? tests : lint)); }; mkdir -p .mypy_cache; beside
H200   := 20261122-215641-h200-decode-processes 20261121-180544 20261121-182329 20261121-182434

.PHONY: run report test test-all test-gpu lint types wheel bench clean help

run: $(STAMP)  ## measure every kernel (ARGS="--shape B=1,8,64" for more)
	$(BIN)/gdnbench run --kernel all $(ARGS)

report: $(STAMP)  ## report.html, of a run and three sweeps on an H200
	$(BIN)/gdnbench report $(H200) --output report.html $(ARGS)

test: $(STAMP)  ## lint, types and tests that need no GPU
	$(BESIDE_LINT) $(PYTEST) -m "not gpu and not deep" $(ARGS)

test-all: $(STAMP)  ## the same, with the further cases that tests/deep.py names
	$(BESIDE_LINT) $(PYTEST) -m "not gpu" $(ARGS)

test-gpu:  ## every test on a machine with a GPU, with the Python at hand: make test-gpu PYTHON=python3
	$(PYTHON) -m pytest $(ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/python benchmarks/house.py

types: $(STAMP)
	$(BIN)/mypy

wheel: $(STAMP)  ## dist/gdnbench-*.whl, with the kernels in it
	$(BIN)/python -m build --wheel --no-isolation

bench: $(STAMP)  ## how fast the command line answers, and a first look without a GPU
	$(BIN)/python benchmarks/cli_startup.py
	$(BIN)/python benchmarks/first_look.py

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("gdnbench needs Python 3.11 or newer; set PYTHON=python3.12, say" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,fla]'
	@touch $@

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache

help:
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */  \1\t/' | expand -t 14
