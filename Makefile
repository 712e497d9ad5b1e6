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
	@echo 'make test      run the quick tests, some of every kind: minutes'
	@echo 'make test-all  run the tests that `make test` leaves out: make thorough, then make doors'
	@echo 'make thorough  run the long ones;  make doors runs those that need PyTorch, JAX, CuPy, S3 and others'
	@echo 'make peers     compare with TensorFlow itself, and keep the result'
	@echo 'make conformance  run TensorFlow'"'"'s own tests against queuecore: QUEUECORE_PEER_TESTS names their folder'
	@echo 'make demo      train on a stream of digits, then measure a 600 MB stream'
	@echo 'make bench     run the benchmarks; results go to benchmarks/results'
	@echo 'make gpu-test  run the tests that need a GPU;  make gpu-bench runs the benchmarks of the device plane'
	@echo 'make build     compile in place, for tests'
	@echo 'make lint      style of Python, Cython, C++ and spelling;  make format repairs what it can'
	@echo 'make picture   draw which native module imports which, and augmented samples: docs/cimports.svg, docs/augmented.png'
	@echo 'make types     stubs against the compiled modules, then both type checkers'
	@echo 'make sanitize  native tests under the thread, and under the address and undefined sanitizers'
	@echo 'make fuzz      new inputs for every parser, for TIME=10 seconds each'
	@echo 'make soak      random pipelines under random faults for SOAK=1800 seconds, and slow consumers for a third of that'
	@echo 'make pythons   tests that depend on the version of Python, on each other one that is installed'
	@echo 'make aarch64   compile everything for 64-bit ARM with $(CROSS)'
	@echo 'make dist      sdist, wheel from the sdist, and the tests against that wheel;  make wheel tries it for seconds'
	@echo 'make nightly   all that searches rather than checks; the outcome goes to tests/nightly.txt'
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

# Large packages that few tests need lie in environments of their own, one for each group of pyproject.toml. Where pip
# finds PyTorch with CUDA alone, which is large: make doors PIP_ARGS='--extra-index-url https://download.pytorch.org/whl/cpu'.
DOORS := $(VENV)/doors
PEERS := $(VENV)/peers

$(STAMP)-doors $(STAMP)-peers: $(STAMP)-%: $(STAMP)-base
	[ -x $(VENV)/$*/bin/pip ] || $(PY) -m venv --clear $(VENV)/$*
	@$(PY) -c 'import sys, tomllib; \
	  print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"][sys.argv[1]], sep="\n")' $* > $(VENV)/$*/requires.txt
	$(VENV)/$*/bin/pip install --quiet --disable-pip-version-check $(PIP_ARGS) --requirement $(VENV)/$*/requires.txt \
	  $(if $(filter doors,$*),--requirement $(VENV)/build-requires.txt)
	$(if $(filter doors,$*),QUEUECORE_NO_EXTENSIONS=1 $(DOORS)/bin/pip install --quiet --disable-pip-version-check --no-build-isolation \
	  --editable '.[test]')
	@touch $@

# One stamp for each further extra.
$(STAMP)-demo $(STAMP)-dev: $(STAMP)-%: $(STAMP)-base
	QUEUECORE_NO_EXTENSIONS=1 $(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --editable '.[$*]'
	@touch $@

# ---- build ----------------------------------------------------------------------------------------------------------

NATIVE := $(shell find src -name '*.pyx' -o -name '*.pxd' -o -name '*.hpp')

# setup.py finds out what is stale; this stamp only saves asking it. The folders are named for files that were removed.
$(STAMP)-build: $(STAMP)-base $(NATIVE) $(shell find src -type d)
	QUEUECORE_TESTING=1 $(PY) setup.py -q build_ext --inplace --parallel $(JOBS)
	@touch $@

.PHONY: environment build
environment: $(STAMP)-base
build: $(STAMP)-build

# ---- jobs -----------------------------------------------------------------------------------------------------------

.PHONY: test test-all thorough doors peers conformance demo bench
# Plain pytest, never `python -m pytest`: that puts this directory on sys.path. Each test runs in one of these jobs: what
# they leave to another one isn't looked at, rather than skipped.
# One process more than processors, because many tests wait.
PYTEST = .ci/as_user $(BIN)/pytest --numprocesses=$$(($(JOBS) + 1)) --dist=worksteal
OF_DOORS := $(wildcard tests/unit/doors)

test: build
	$(PYTEST) $(OF_DOORS:%=--ignore=%) -m 'not (thorough or doors or peers or gpu)' $(PYTEST_ARGS)

test-all: thorough doors

thorough: build
	QUEUECORE_SEARCH=1 $(PYTEST) $(OF_DOORS:%=--ignore=%) -m 'thorough and not (doors or peers or gpu)' $(PYTEST_ARGS)

# The modules are those of the in-place build, because the environment has the same Python. PyTorch's tests are apart, for
# they fork, and JAX wants to be in no process that does.
doors: build $(STAMP)-doors
	$(IN_DOORS) $(wildcard tests/unit/doors/test_torch*.py)
	$(IN_DOORS) $$(grep -rl mark.doors tests/unit tests/faults | grep -v /test_torch)
IN_DOORS = $(subst $(BIN)/,$(DOORS)/bin/,$(PYTEST)) -m 'doors and not gpu' $(PYTEST_ARGS)

peers: build $(STAMP)-peers
	QUEUECORE_TENSORFLOW_PYTHON=$(CURDIR)/$(PEERS)/bin/python .ci/peers $(PYTEST) -m peers $$(grep -rli asks_tensorflow tests/unit)

# The tests are in the folder that QUEUECORE_PEER_TESTS names, or in TensorFlow's package, where `make peers` has installed it.
# CONFORMANCE names parts of the paths of modules; the table is written of all of them alone. Tests of PyTorch's loaders
# need PyTorch: that of `make doors`, if it is there.
conformance: build
	PYTHONPATH=tests QUEUECORE_TENSORFLOW_PYTHON=$(CURDIR)/$(PEERS)/bin/python \
	  $(or $(wildcard $(DOORS)/bin/python),$(PY)) -P -m conformance.run --page docs/conformance.md $(CONFORMANCE)

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

.PHONY: tools lint format types
tools: $(STAMP)-dev

lint: tools $(STAMP)-build
	.ci/lint

format: tools
	$(BIN)/ruff check --fix
	find src benchmarks tests -name '*.hpp' -exec $(BIN)/clang-format -i {} +

types: tools $(STAMP)-build
	.ci/types

.PHONY: sanitize sanitize-thread sanitize-address
sanitize: sanitize-thread sanitize-address

sanitize-thread: $(STAMP)-base
	.ci/sanitize thread $(PYTEST_ARGS)

sanitize-address: $(STAMP)-base
	.ci/sanitize address,undefined $(PYTEST_ARGS)

.PHONY: fuzz fuzz-keep
TIME ?= 10
fuzz: $(STAMP)-build
	JOBS=$(JOBS) .ci/fuzz $(TIME)

fuzz-keep: $(STAMP)-build
	JOBS=$(JOBS) .ci/fuzz keep

.PHONY: soak
SOAK ?= 1800
soak: build
	PYTHONPATH=tests $(PY) -P tests/soak/backpressure.py --seconds $$(($(SOAK) / 3)) & slow=$$!; \
	PYTHONPATH=tests/soak $(PY) -P tests/soak/soak.py --seconds $(SOAK) $(SOAK_ARGS); status=$$?; \
	wait $$slow && exit $$status

.PHONY: pythons aarch64 wheel dist
pythons: $(STAMP)-build
	.ci/pythons

aarch64: $(STAMP)-build
	$(PY) -P .ci/cross_compile.py $(CROSS)

wheel: tools
	.ci/dist quick

dist: tools
	.ci/dist

.PHONY: picture
picture: build
	PYTHONPATH=tests $(PY) -P -m helpers.repository.drawing
	PYTHONPATH=tests $(PY) -P -m helpers.repository.samples

.PHONY: nightly
nightly: build
	$(PY) -P .ci/nightly $(STEPS)

.PHONY: clean
clean:
	rm -rf build dist *.egg-info
	find queuecore/_core -name '*.so' -delete
	rm -f $(STAMP)-build $(STAMP)-base
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
