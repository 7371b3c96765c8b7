# Two commands are all a newcomer needs: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := $(VENV)/peers
SOURCES := $(wildcard src/domkl/engines/_native/*.?pp src/domkl/engines/_native/auto/*.?pp)
# The paper's data, where it lies beside the project; tests that need it are skipped otherwise.
export DOMKL_DATA ?= $(abspath $(wildcard ../shared/data))

.PHONY: demo test check docs site reproduce bench chaos soak sanitize clean

demo: $(VENV)/.demo  ## set up, then let ten sites learn together how long engines last
	$(BIN)/domkl run

test: $(VENV)/.dev $(VENV)/.system  ## set up, then run every test, docstring and README example
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n auto --dist worksteal $(ARGS)

check: $(VENV)/.dev  ## lint, format, types, direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.dev  ## write the reference, the tables and the pictures again
	$(BIN)/python scripts/make_reference.py
	$(BIN)/python benchmarks/tables.py
	$(BIN)/python scripts/make_gallery.py

site: $(VENV)/.dev  ## the pages as a site in build/site, with every link followed
	$(BIN)/python -m pip install -q --disable-pip-version-check zensical==0.0.73
	$(BIN)/python scripts/make_site.py

reproduce: $(VENV)/.dev  ## the paper's tables beside the printed figures
	$(BIN)/domkl reproduce

bench: $(PEERS)/.ready  ## measure engines, limit and peers; write results, pictures and tables
	$(PEERS)/bin/python benchmarks/bench --out benchmarks/results
	$(PEERS)/bin/python benchmarks/native.py --json benchmarks/results/native.json
	$(PEERS)/bin/python benchmarks/scaling.py
	$(PEERS)/bin/python benchmarks/plot.py
	$(PEERS)/bin/python benchmarks/tables.py

chaos: $(VENV)/.dev $(VENV)/.system  ## every fault in full, on real processes (at most 15 minutes)
	$(BIN)/python benchmarks/chaos.py

soak: $(VENV)/.dev  ## a million rounds on two agents
	$(BIN)/python benchmarks/soak.py

sanitize:  ## the engine's tests under the address and undefined-behaviour sanitizers
	$(PYTHON) -m venv build/sanitize
	build/sanitize/bin/python -m pip install -q --disable-pip-version-check pytest hypothesis networkx \
		-Ccmake.define.DOMKL_SANITIZE=ON .
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
		ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1 \
		build/sanitize/bin/python -m pytest -q -p no:cacheprovider tests/test_engines.py tests/test_learner.py \
		tests/test_second_order.py tests/test_inverse.py tests/test_same_everywhere.py \
		tests/test_native_auto.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

NATIVE := CMakeLists.txt $(SOURCES)

$(VENV)/.demo: pyproject.toml $(NATIVE) | $(VENV)/bin/python
	$(BIN)/python -m pip install -q --disable-pip-version-check -e ".[cli]"
	touch $@

# A broker and tools that break networks, where they can be had; tests say what they skip without them.
$(VENV)/.system: scripts/install_system.sh scripts/install_axe.sh | $(VENV)/bin/python
	sh scripts/install_system.sh
	sh scripts/install_axe.sh
	touch $@

# Peers have dependencies of their own, which tests should not see.
$(PEERS)/.ready: pyproject.toml benchmarks/requirements.txt $(NATIVE) $(wildcard src/domkl/*.py src/domkl/*/*.py src/domkl/*/*/*.py)
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install -q --disable-pip-version-check ".[cli]" -r benchmarks/requirements.txt
	touch $@

$(VENV)/.dev: pyproject.toml $(NATIVE) | $(VENV)/bin/python
	$(BIN)/python -m pip install -q --disable-pip-version-check -e ".[dev]"
	touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) domkl-report domkl-results .pytest_cache .mypy_cache .ruff_cache .hypothesis
