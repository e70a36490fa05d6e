# `make demo` and `make test` are the two commands; each installs what it needs into .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
DEV    := $(VENV)/.installed-dev
RUST   := $(wildcard Cargo.toml Cargo.lock crates/*/Cargo.toml crates/*/src/*.rs crates/*/src/*/*.rs)

.PHONY: demo test test-python test-rust lint format docs clean bench-search-speed bench-sampling zhou2013

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or later is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

# The wheel holds the native engine; it is built again when Rust code or the packaging changes.
$(STAMP): pyproject.toml $(RUST) | $(BIN)/python
	@command -v cargo >/dev/null || { echo "error: cargo is not on the PATH"; echo "hint: install a Rust toolchain (rustup)"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all]'
	@touch $@

$(DEV): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'hypothesis>=6.100' 'maturin>=1.7,<2' 'mypy>=1.11' \
	  'pytest>=8.2' 'pytest-randomly>=3.15' 'ruff>=0.6' scipy-stubs types-psutil
	@touch $@

demo: $(STAMP)
	$(BIN)/trimtab tune examples/demo.toml --html demo-report.html

test: lint test-rust test-python

test-rust:
	cargo test --workspace --exclude trimtab-native --quiet

test-python: $(DEV)
	sh tests/install-servers.sh
	$(BIN)/python -m pytest

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

clean:
	rm -rf $(VENV) target src/trimtab/_native*.so
