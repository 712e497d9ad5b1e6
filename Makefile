# Everything here sets itself up: a .venv in this checkout, the packages it needs, the compiled modules.
# A second call does only what changed. `make PYTHON=python3.13 ...` picks the Python that a new .venv is made from.

PYTHON ?= python3
JOBS ?= $(shell nproc)
CROSS ?= aarch64-linux-gnu-g++

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
# Stamps live in the .venv: who deletes that starts anew.
STAMP := $(VENV)/.stamp
SETUP := pyproject.toml setup.py

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Quiet, so that the last line printed is that of the job itself.
MAKEFLAGS += --no-print-directory

.PHONY: help
help:
	@echo 'make test      run the tests'
	@echo 'make demo      train on a stream of digits, then measure a 600 MB stream'
	@echo 'make bench     run the benchmarks; results go to benchmarks/results'
	@echo 'make gpu-test  run the tests that need a GPU;  make gpu-bench runs the benchmarks of the device plane'
	@echo 'make build     compile in place, for tests'
	@echo 'make lint      style of Python, Cython, C++ and spelling;  make format repairs what it can'
	@echo 'make types     stubs against the compiled modules, then both type checkers'
	@echo 'make sanitize  native tests under the thread, and under the address and undefined sanitizers'
	@echo 'make fuzz      new inputs for every parser, for TIME=10 seconds each'
	@echo 'make pythons   tests that depend on the version of Python, on each other one that is installed'
	@echo 'make aarch64   compile everything for 64-bit ARM with $(CROSS)'
	@echo 'make dist      sdist, wheel from the sdist, and the tests against that wheel'
	@echo 'make clean     remove what was built, but not .venv'

# ---- environment ----------------------------------------------------------------------------------------------------

# A half-made .venv has no stamp and is made anew.
$(STAMP)-venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "queuecore needs Python 3.11 or newer; try make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

# The build requirements come from pyproject.toml, which alone names them. --no-build-isolation, because the in-place
# build below must use the same ones; without extensions, because pip would compile them where `build` can't find them.
# pip's own list of what is there decides what to download, so an unchanged set costs no network.
$(STAMP)-base: $(STAMP)-venv $(SETUP)
	@$(PY) -c 'import tomllib; \
	  print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' > $(VENV)/build-requires.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --requirement $(VENV)/build-requires.txt
	QUEUECORE_NO_EXTENSIONS=1 $(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --editable '.[test]'
	@touch $@

# One stamp for each further extra.
$(STAMP)-demo $(STAMP)-dev: $(STAMP)-%: $(STAMP)-base
	QUEUECORE_NO_EXTENSIONS=1 $(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --editable '.[$*]'
	@touch $@

# ---- build ----------------------------------------------------------------------------------------------------------

NATIVE := $(shell find src -name '*.pyx' -o -name '*.pxd' -o -name '*.hpp')

# setup.py finds out what is stale; this stamp only saves asking it. The folders are named for files that were removed.
$(STAMP)-build: $(STAMP)-base $(NATIVE) src/queuecore/_core src/queuecore/include/queuecore
	QUEUECORE_TESTING=1 $(PY) setup.py -q build_ext --inplace --parallel $(JOBS)
	@touch $@

.PHONY: build
build: $(STAMP)-build

# ---- jobs -----------------------------------------------------------------------------------------------------------

.PHONY: test demo bench
# Plain pytest, never `python -m pytest`: that puts this directory on sys.path.
test: build
	$(BIN)/pytest --numprocesses=$(JOBS) $(PYTEST_ARGS)

demo: build $(STAMP)-demo
	$(BIN)/queuecore demo $(DEMO_ARGS)

bench: build
	$(PY) -P benchmarks/run.py $(BENCH_ARGS)

.PHONY: gpu-test gpu-bench
# Without a GPU, the tests are skipped, and figures are not measured; all say why.
gpu-test: build
	$(BIN)/pytest -m gpu -rs $(PYTEST_ARGS)

gpu-bench: build
	$(PY) -P benchmarks/run.py --only bench_feed bench_device $(BENCH_ARGS)

.PHONY: lint format types
lint: $(STAMP)-dev $(STAMP)-build
	.ci/lint

format: $(STAMP)-dev
	$(BIN)/ruff check --fix
	find src benchmarks tests -name '*.hpp' -exec $(BIN)/clang-format -i {} +

types: $(STAMP)-dev $(STAMP)-build
	.ci/types

.PHONY: sanitize sanitize-thread sanitize-address
sanitize: sanitize-thread sanitize-address

sanitize-thread: $(STAMP)-base
	.ci/sanitize thread

sanitize-address: $(STAMP)-base
	.ci/sanitize address,undefined

.PHONY: fuzz fuzz-keep
TIME ?= 10
fuzz: $(STAMP)-build
	JOBS=$(JOBS) .ci/fuzz $(TIME)

fuzz-keep: $(STAMP)-build
	JOBS=$(JOBS) .ci/fuzz keep

.PHONY: pythons aarch64 dist
pythons: $(STAMP)-build
	.ci/pythons

aarch64: $(STAMP)-build
	$(PY) -P .ci/cross_compile.py $(CROSS)

dist: $(STAMP)-dev
	.ci/dist

.PHONY: clean
clean:
	rm -rf build dist *.egg-info
	rm -f queuecore/_core/*.so $(STAMP)-build $(STAMP)-base
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
