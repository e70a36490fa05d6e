# `make demo` and `make test` are the two commands; each installs what it needs into .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
DEV    := $(VENV)/.installed-dev
RUST   := $(wildcard Cargo.toml Cargo.lock crates/*/Cargo.toml $(shell find crates -path '*/src/*' -name '*.rs' 2>/dev/null))

.PHONY: demo test test-python test-rust test-faults lint format docs clean bench-search bench-importance bench-history bench-sampling bench-zhou2013

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or later is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

# The wheel holds the native engine; it is built again when Rust code or the packaging changes.
$(STAMP): pyproject.toml $(RUST) | $(BIN)/python
	@command -v cargo >/dev/null || { echo "error: cargo is not on the PATH"; echo "hint: install a Rust toolchain (rustup)"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all]'
	@touch $@

$(DEV): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'ConfigSpace>=1.2' 'hypothesis>=6.100' 'maturin>=1.7,<2' 'mypy>=1.11' \
	  'optuna>=5.0' 'pytest>=8.2' 'pytest-randomly>=3.15' 'pytest-xdist>=3.5' 'ruff>=0.6' scipy-stubs types-defusedxml types-PyMySQL types-psutil
	@touch $@

demo: $(STAMP)
	$(BIN)/trimtab tune examples/demo.toml --again --html demo-report.html
	@echo
	@echo "report: demo-report.html    config: .trimtab/results/demo.conf    every trial: $(BIN)/trimtab report demo --trials"

test: lint test-rust test-python

test-rust:
	cargo test --workspace --exclude trimtab-native --quiet

# The fault matrix in its long form: every row of tests/faults/README.md on real servers, one line a row at the end.
test-faults: $(DEV)
	sh tests/install-servers.sh
	$(BIN)/python tests/fetch_servers.py
	TRIMTAB_FAULTS=full $(BIN)/python -m pytest tests/faults $(FAULTS)

test-python: $(DEV)
	sh tests/install-servers.sh
	$(BIN)/python tests/fetch_servers.py
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	cargo fmt --all

# Writes the pages that are generated from the code.
docs: $(DEV)
	$(BIN)/python docs/generate.py
	$(BIN)/python -m tests.target.test_docs

# Searchers beside their peers, each of which lives in an environment of its own; an hour or more on one core.
# make bench-search BENCH="--quick" takes minutes, BENCH="--part ask" times asks only (on a quiet machine).
PEERS := optuna smac scikit-optimize opentuner
PEER_STAMPS := $(PEERS:%=.venv-bench-search/%/.installed)

.venv-bench-search/%/.installed: benchmarks/search/requirements-%.txt
	$(PYTHON) -m venv $(@D)
	-$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -r $< || rm -rf $(@D)/bin
	@touch $@

bench-search: $(STAMP) $(PEER_STAMPS)
	$(BIN)/python benchmarks/search/run.py $(BENCH)

# The load engine beside pgbench, sysbench and go-ycsb (GO_YCSB=program); about 20 minutes (BENCH=--quick: two).
bench-load: $(STAMP)
	$(BIN)/python benchmarks/load/run.py $(BENCH)

# Rankers on planted truth and recorded tables, and on real servers (hours); BENCH='--part planted' runs one part.
bench-importance: $(STAMP)
	$(BIN)/python benchmarks/importance/run.py $(BENCH)

# 100,000 trials in a store: how long lists, queries, reports, imports and warm asks take; then warm starts on recorded workloads,
# where there are any; a quarter of an hour (BENCH=--quick: two minutes).
bench-history: $(STAMP)
	$(BIN)/python benchmarks/history/scale.py $(BENCH)
	$(BIN)/python benchmarks/history/warm.py $(filter --quick,$(BENCH))

bench-sampling: $(STAMP)
	$(BIN)/python benchmarks/sampling_problem.py

# The six mixes of Zhou 2013; about an hour, as root where a memory limit is to hold (cgroup).
bench-zhou2013: $(STAMP)
	$(BIN)/python benchmarks/zhou2013/run.py

clean:
	rm -rf $(VENV) target src/trimtab/_native*.so
