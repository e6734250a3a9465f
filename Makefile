PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
OLDEST_PYTEST := 9.0.0

.PHONY: demo test test-portable test-oldest-pytest lint clean

demo: $(VENV)/.ready
	$(BIN)/pytest --grb-only --grb-model grb_check.models:gcn

# A file of tests stays on one worker: those on real graphs share one long run. conftest.py puts the
# longest files first; the workers are to take them in that order.
test: $(VENV)/.ready
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

# The attacks' tests again as on a processor without vector instructions: other sums round otherwise.
test-portable: $(VENV)/.ready
	ATEN_CPU_CAPABILITY=default $(BIN)/pytest -n 2 --dist loadfile -m "not slow" tests/attacks

# The plugin's own tests again, but for the slow ones, on the oldest pytest that pyproject.toml allows.
test-oldest-pytest: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --target $(VENV)/oldest --upgrade --no-deps \
		pytest==$(OLDEST_PYTEST)
	PYTHONPATH=$(VENV)/oldest $(BIN)/python -m pytest -n 2 -m "not slow" tests/plugin

lint: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --constraint constraints.txt ruff mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --platform win32
	$(BIN)/mypy --platform darwin

# torch goes first and pinned: without the pin a later one comes with gigabytes of CUDA.
$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	touch $@

clean:
	rm -rf $(VENV) .grb_check .pytest_cache .hypothesis
