# Everything that one does with a checkout of jnrrdz.  Each target works by itself on a fresh clone:
# it finds a Python, makes .venv and installs the pinned versions first, once.

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
SYSTEM := $(VENV)/system
CONFORMANCE ?= ../shared/conformance/conformance.py
RESULTS ?= .benchmarks/conformance.jsonl
CODECS ?= auto
UV ?= uv
LOWEST := .venv-lowest

.DEFAULT_GOAL := help
.PHONY: help demo test test-lowest coverage check lint types imports dist docs bench conformance fuzz clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: $(INSTALLED) ## make a small COG, index it, open it with xarray, draw it to demo/terrain.png
	$(BIN)/python examples/demo.py

test: $(INSTALLED) $(SYSTEM) ## run the tests (PYTEST="-k tiff" adds arguments)
	$(BIN)/python -m pytest -n auto $(PYTEST)

test-lowest: ## run the tests on Python 3.12 with the oldest dependencies that pyproject.toml admits (needs uv)
	@command -v $(UV) >/dev/null || { echo "make test-lowest needs uv: pip install uv, or UV=/path/to/uv"; exit 2; }
	$(UV) venv --quiet --allow-existing --python 3.12 $(LOWEST)
	$(UV) pip install --quiet --python $(LOWEST) --resolution lowest-direct --editable '.[dev]'
	$(LOWEST)/bin/python -m pytest -n auto $(PYTEST)

coverage: $(INSTALLED) $(SYSTEM) ## run the tests, and tell which lines of the package they run (build/coverage)
	$(BIN)/python -m pytest -n auto --cov --cov-report=html:build/coverage --cov-report=markdown:build/coverage.md $(PYTEST)
	@tail -n 1 build/coverage.md

check: lint types imports test ## what CI runs: lint, types, imports, tests

lint: $(INSTALLED) ## ruff: rules and format
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(INSTALLED) ## mypy, strict
	$(BIN)/mypy

imports: $(INSTALLED) ## import-linter: imports go down only
	$(BIN)/lint-imports

dist: $(INSTALLED) ## build the wheel and the sdist, check them, and try the wheel where nothing else is installed
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist >/dev/null
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	$(BIN)/python tests/smoke.py dist/*.whl

docs: $(INSTALLED) ## build the documentation's site, strictly, into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

bench: $(INSTALLED) ## ratios to tifffile, rasterio, fsspec and the bound, kept for the site and the README (BENCH="--only http")
	$(BIN)/python benchmarks/run.py --keep $(BENCH)
	$(BIN)/python benchmarks/results.py

conformance: $(INSTALLED) ## read every file of CORPUS=... and compare each pixel with independent readers (CODECS=proposal)
	@test -n "$(CORPUS)" || { echo "Say which corpus: make conformance CORPUS=../shared/corpus/tiff"; exit 2; }
	@test -f "$(CONFORMANCE)" || { echo "$(CONFORMANCE) is not there; CONFORMANCE=... says where it is."; exit 2; }
	@mkdir -p $(dir $(RESULTS))
	$(BIN)/python tests/conformance.py $(CONFORMANCE) $(CODECS) $(CORPUS) --out $(RESULTS)
	$(BIN)/python tests/check_floors.py $(notdir $(patsubst %/,%,$(CORPUS))) $(RESULTS)

fuzz: $(INSTALLED) ## ten CPU-minutes of fuzzing (FUZZ="--minutes 300 tiff" adds arguments)
	$(BIN)/python tests/fuzz/run.py $(FUZZ)

clean: ## remove .venv, caches, demo/ and the benchmarks' data
	rm -rf $(VENV) $(LOWEST) .fuzz demo .benchmarks build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# The first Python >= 3.12 that runs and can make a virtual environment.  pyenv's shims fail for a
# version that .python-version does not select, so its versions are tried by path as well.
define FIND_PYTHON
tried=""; found=""; \
for candidate in $(PYTHON) python3 python3.13 python3.12 python3.14 python /usr/bin/python3 \
    "$$(uv python find '>=3.12' 2>/dev/null)" \
    "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/3.1[2-9]*/bin/python3; do \
  case "$$candidate" in ""|*"*"*) continue;; esac; \
  command -v "$$candidate" >/dev/null 2>&1 || { tried="$$tried\n  $$candidate: not there"; continue; }; \
  version=$$("$$candidate" -c 'import platform; print(platform.python_version())' 2>/dev/null) \
    || { tried="$$tried\n  $$candidate: does not run"; continue; }; \
  "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 12))' \
    || { tried="$$tried\n  $$candidate: Python $$version, too old"; continue; }; \
  "$$candidate" -c 'import ensurepip, venv' 2>/dev/null \
    || { tried="$$tried\n  $$candidate: Python $$version without venv or ensurepip"; continue; }; \
  found="$$candidate"; break; \
done; \
if test -z "$$found"; then \
  printf "jnrrdz needs Python 3.12 or newer with venv, and none was found. Tried:$$tried\n"; \
  printf "Install one ('uv python install 3.13', 'pyenv install 3.13', or your system's python3 and\n"; \
  printf "python3-venv packages), or say where it is: make PYTHON=/path/to/python3 ...\n"; \
  exit 1; \
fi
endef

$(INSTALLED): pyproject.toml constraints.txt
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null 2>&1 || { $(FIND_PYTHON); \
	  echo "Making $(VENV) with $$found (Python $$version)"; "$$found" -m venv --clear $(VENV); }
	@echo "Installing jnrrdz and its pinned dependencies into $(VENV)"
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

$(SYSTEM): tests/system.sh tests/clients/package-lock.json $(INSTALLED)
	@bash tests/system.sh
	@touch $@
