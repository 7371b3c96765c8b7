# Two commands are all a newcomer needs: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The paper's data, where it lies beside the project; tests that need it are skipped otherwise.
export DOMKL_DATA ?= $(abspath $(wildcard ../shared/data))

.PHONY: demo test check docs reproduce bench clean

demo: $(VENV)/.demo  ## set up, then let three real weather stations learn together
	$(BIN)/domkl run

test: $(VENV)/.dev  ## set up, then run every test, docstring and README example
	$(BIN)/pytest -n auto

check: $(VENV)/.dev  ## lint, format, types, direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.dev  ## write the reference and the picture anew
	$(BIN)/python scripts/make_reference.py
	$(BIN)/python scripts/make_images.py

reproduce: $(VENV)/.dev  ## the paper's tables beside the printed figures
	$(BIN)/domkl reproduce

bench: $(VENV)/.dev  ## speeds, as ratios of one run
	$(BIN)/python benchmarks/speed.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

NATIVE := CMakeLists.txt $(wildcard src/domkl/_native/*.?pp)

$(VENV)/.demo: pyproject.toml $(NATIVE) | $(VENV)/bin/python
	$(BIN)/python -m pip install -q --disable-pip-version-check -e ".[cli]"
	touch $@

$(VENV)/.dev: pyproject.toml $(NATIVE) | $(VENV)/bin/python
	$(BIN)/python -m pip install -q --disable-pip-version-check -e ".[dev]"
	touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) domkl-report domkl-results .pytest_cache .mypy_cache .ruff_cache .hypothesis
