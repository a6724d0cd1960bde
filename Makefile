# evalkit: `make help` lists what there is. Needed: make and a Python of 3.11 or newer with venv.
SHELL := /bin/bash
.DELETE_ON_ERROR:

# The first of these that is new enough; `make PYTHON=/path/to/python test` names another.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; exit; }; \
	done; echo none)
# Further arguments for installing torch, say those that name a source of CPU builds.
TORCH_ARGS ?=
# Processes that run tests; 0 runs them all in one.
WORKERS ?= 2
# Where the documentation site goes.
SITE ?= out/docs
# Further arguments for pytest: make test ARGS="-k cache -x"
ARGS ?=

export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Hundreds of processes are started by the tests, and each would compile every module of evalkit anew.
unexport PYTHONDONTWRITEBYTECODE
# Tests, notebooks and examples write into a folder of their own, not into the paid replies of cache/.
OWN_CACHE = own=$$(mktemp -d) && trap 'rm -rf "$$own"' EXIT && EVALKIT_CACHE="$$own"
# The tuner is driven on the last ipykernel of version 6 as well: it lies beside the environment's own, in a folder.
OLD_KERNEL = ipykernel==6.31.0 nest-asyncio==1.6.0
NOTEBOOKS = $(wildcard notebooks/*.ipynb)
JOURNEY_NOTEBOOK = notebooks/01-tour.ipynb
NBVAL = $(if $(NOTEBOOKS),--nbval --nbval-current-env --nbval-cell-timeout=600 --nbval-kernel-startup-timeout=300)
PIP_INSTALL = -m pip install --quiet --no-input
# pip compiles what it installs on one core. Warnings of the compiler are errors in tests, so nothing is left to the
# first import; some libraries ship files that are no Python of this version. Left out is what the compiler has no
# warnings about and of which a dozen files are imported: these are compiled then.
NOT_COMPILED = /tests/|/transformers/models/|/ray/(rllib|serve)/|/litellm/proxy/|/sympy/physics/
COMPILE = -m compileall -q -j 0 -x '$(NOT_COMPILED)' .venv-test/lib >/dev/null || true

# xdist hands out whole files, in the order of tests/conftest.py: the long ones first.
PYTEST = $(OWN_CACHE) .venv-test/bin/python -m pytest \
	$(if $(filter-out 0,$(WORKERS)),-n $(WORKERS) --dist loadfile --no-loadscope-reorder)

.PHONY: help demo quick test test-all check docs bench clean python

help: ## what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/make \1\t\2/' | expand -t 16

demo: .venv/.built ## judge the bundled examples offline, see spread, agreement and the effect of an edit
	@.venv/bin/evalkit demo

# Files are chosen by their path: tests/support/selection.py. PKG=stats: that package's tests and those above it.
SELECT = .venv-test/bin/python tests/support/selection.py
PKG ?=
# Which files test-all runs: rest leaves out those that `make test` runs.
TIER ?= all

quick: .venv-test/.built ## the tests to run while editing, under a minute: no process, server, browser or notebook
	@files=$$($(SELECT) quick $(PKG)) && $(PYTEST) -q -p no:nbval -m "not long" $$files $(ARGS)

test: .venv-test/.built ## five minutes: the quick tests and one journey through each door (builds everything)
	@files=$$($(SELECT) test $(PKG)) && $(PYTEST) $(NBVAL) $$files $(JOURNEY_NOTEBOOK) $(ARGS)

test-all: .venv-test/.built ## every test and notebook; with TIER=rest, those that `make test` leaves out
	@export NOTEBOOKS_TWICE=1 && files=$$($(SELECT) $(TIER) $(PKG)) && $(PYTEST) $(NBVAL) $$files $(NOTEBOOKS) $(ARGS)

check: .venv-test/.built ## format, lint, types, layers, local names, ceilings of size, examples in docstrings
	@.venv-test/bin/ruff format --check .
	@.venv-test/bin/ruff check .
	@.venv-test/bin/mypy
	@.venv-test/bin/lint-imports --no-logo
	@.venv-test/bin/python tests/support/local_names.py
	@.venv-test/bin/python tests/support/ceilings.py
	@$(OWN_CACHE) .venv-test/bin/python -m pytest -q --doctest-modules evalkit

docs: .venv-test/.built ## the documentation site, in out/docs: pages, notebooks, API reference; a broken link is an error
	@.venv-test/bin/sphinx-build -q -W --keep-going -c docs -b html . $(SITE) && echo "built $(SITE)/index.html"

bench: .venv-test/.built ## the slow bars: speed, memory, recorded replies
	@.venv-test/bin/python benchmarks/run.py $(ARGS)

clean: ## remove what was built; cache/ holds paid replies and stays
	rm -rf .venv .venv-test dist build out .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

python:
	@case "$(PYTHON)" in none) found=$$(python3 --version 2>&1); \
		echo "evalkit needs Python 3.11 or newer; found: $${found:-none}. Install one, or name it: make PYTHON=/path/to/python3.11 …" >&2; exit 1;; esac
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit(f"evalkit needs Python 3.11 or newer; $(PYTHON) is {v[0]}.{v[1]}")'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments; install its venv package (Debian, Ubuntu: apt install python3-venv)" >&2; exit 1; }

# Each environment is built anew when what it is made of changes. The build back end goes in first, so that
# no second, unpinned set of packages is fetched to build evalkit itself.
.venv/.built: pyproject.toml constraints/core.txt evalkit/_version.py | python
	@echo "building .venv (core and notebook parts; once)"
	@rm -rf .venv && $(PYTHON) -m venv .venv
	@.venv/bin/python $(PIP_INSTALL) -c constraints/core.txt hatchling
	@.venv/bin/python $(PIP_INSTALL) -c constraints/core.txt --no-build-isolation -e '.[notebook]'
	@touch $@

# torch goes in first and by itself: together with all the rest pip searches for minutes.
.venv-test/.torch: constraints/torch.txt | python
	@echo "building .venv-test (everything; once): torch"
	@rm -rf .venv-test && $(PYTHON) -m venv .venv-test
	@.venv-test/bin/python $(PIP_INSTALL) --no-compile -r constraints/torch.txt -c constraints/dev.txt $(TORCH_ARGS)
	@touch $@

.venv-test/.built: pyproject.toml constraints/dev.txt evalkit/_version.py .venv-test/.torch
	@echo "building .venv-test: the rest"
	@.venv-test/bin/python $(PIP_INSTALL) --no-compile -c constraints/dev.txt hatchling
	@.venv-test/bin/python $(PIP_INSTALL) --no-compile -c constraints/dev.txt --no-build-isolation -e '.[notebook,parquet,datasets,lighteval,registry,postgres,dask,ray,anthropic,dev]'
	@.venv-test/bin/python $(PIP_INSTALL) --no-deps --target .venv-test/kernels/ipykernel6 $(OLD_KERNEL)
	@.venv-test/bin/python $(COMPILE)
	@touch $@
