# Each target sets up all it needs on a bare clone: Python 3.10 or newer and make are enough.
PYTHON ?= python3
VENV := .venv
# a virtual environment keeps its programs elsewhere on Windows
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
PIP := $(BIN)/python -m pip --disable-pip-version-check
WORKERS ?= 2

.NOTPARALLEL:
.PHONY: demo test test-tensorflow nvrtc oclgrind check bench clean

demo: $(VENV)/demo.stamp
	$(BIN)/python examples/digits_demo.py

test: $(VENV)/dev.stamp $(VENV)/devices.stamp
	$(BIN)/python -m pytest -n $(WORKERS) $(TESTS)

nvrtc: $(VENV)/dev.stamp $(VENV)/nvrtc.stamp
	$(BIN)/python -m pytest -n $(WORKERS) -m nvrtc tests/test_nvrtc.py

# all device kernels and some of real models', interpreted: every night; an hour where nothing else runs
oclgrind: $(VENV)/dev.stamp $(VENV)/devices.stamp
	$(BIN)/python tests/oclgrind_check.py $(FAMILIES)

# what needs TensorFlow, which the other tests go without
test-tensorflow: $(VENV)/dev.stamp $(VENV)/tensorflow.stamp
	$(BIN)/python -m pytest tests/test_flex*.py tests/test_examples_tensorflow.py

check: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/operators.py --check
	$(BIN)/python tools/size.py

bench: $(VENV)/dev.stamp
	$(BIN)/python benchmarks/compare.py $(MODELS)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(VENV)/venv.stamp:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/demo.stamp: pyproject.toml $(VENV)/venv.stamp
	$(PIP) install -q -e .
	touch $@

$(VENV)/dev.stamp: pyproject.toml $(VENV)/venv.stamp
	$(PIP) install -q -e '.[dev]'
	touch $@ $(VENV)/demo.stamp

$(VENV)/devices.stamp: pyproject.toml $(VENV)/venv.stamp
	$(PIP) install -q -e '.[devices]'
	tools/install_pocl.sh
	touch $@

$(VENV)/nvrtc.stamp: pyproject.toml $(VENV)/venv.stamp
	$(PIP) install -q -e '.[nvrtc]'
	touch $@

$(VENV)/tensorflow.stamp: pyproject.toml $(VENV)/venv.stamp
	$(PIP) install -q -e '.[tensorflow]'
	touch $@
