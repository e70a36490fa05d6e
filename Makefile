# `make demo` and `make test` are the two commands, `make check` the quick one; each installs what it needs into .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
DEV    := $(VENV)/.installed-dev
RUST   := $(wildcard Cargo.toml Cargo.lock crates/*/Cargo.toml $(shell find crates -path '*/src/*' -name '*.rs' 2>/dev/null))

.PHONY: asserting demo demo-stack check check-stages code compiled rust test test-stages test-full test-quick test-unit test-service test-long test-rust mutants servers needs lint lint-python format docs wheel test-wheel clean bench-search bench-importance bench-history bench-sampling bench-serve bench-fernando bench-kanellis bench-restart bench-zhou2013 bench-karcher bench-engine-overhead bench-engine-instructions bench-sections bench-steady bench-cgptuner bench-live

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or later is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }  # one without pip, as Debian leaves it, would pass for made

# The wheel holds the native engine; it is built again when Rust code or the packaging changes.
$(STAMP): pyproject.toml $(RUST) | $(BIN)/python
	@command -v cargo >/dev/null || { echo "error: cargo is not on the PATH"; echo "hint: install a Rust toolchain (rustup)"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all]'
	@touch $@

$(DEV): $(STAMP) constraints-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints-dev.txt 'ConfigSpace>=1.2' 'httpx>=0.27' 'hypothesis>=6.100' 'maturin>=1.9.3,<2' 'mypy>=1.11' \
	  'optuna>=5.0' 'psutil>=5.9' 'pytest>=8.2' 'pytest-randomly>=3.15' 'pytest-timeout>=2.3' 'pytest-xdist>=3.5' 'pymongo>=4.6' 'ruff>=0.6' 'SecantusDB>=0.7.0b3; python_version < "3.14"' 'smac>=2.4' 'starlette>=0.40' 'uvicorn>=0.30' scipy-stubs types-defusedxml types-PyMySQL types-psutil
	@touch $@

demo: $(STAMP)
	$(BIN)/trimtab demo

# A web site of three tiers on one machine: needs a JDK of Java 17 and Maven, not root.
demo-stack: $(STAMP)
	$(BIN)/trimtab tune examples/rubis.toml --state .trimtab/demo-stack --budget 14m || [ $$? -eq 1 ]

# Where no bytecode is kept, each worker and each command that a test starts compiles every module again.
unexport PYTHONDONTWRITEBYTECODE

# In CI nothing is built a second time: what rustc would keep for that costs time.
ifeq ($(CI),true)
export CARGO_INCREMENTAL := 0
endif

# What is started by several jobs at once does not share them: cargo and make inside it would warn.
OWN    := env -u MAKEFLAGS -u MFLAGS
# Lints and tests out of one build: `cargo clippy` alone would compile every dependency a second time. It names its driver and the
# driver's arguments to cargo as it is done here. For what is shipped no build has this: the driver optimises less.
LINTED := RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
PYTEST := $(OWN) $(BIN)/python -m pytest --durations=10
# One of these runs a test in Rust, as `rust` has built it.
PYTEST_SERVICE := $(OWN) $(LINTED) $(BIN)/python -m pytest --durations=10
# `$(call timed,name,targets)` makes the targets one after another and says how long that took.
timed   = @began=$$(date +%s); for goal in $(2); do $(MAKE) --no-print-directory $$goal || exit 1; done; \
          echo "make $(1): $$(( $$(date +%s) - began )) s"

# Everything that needs no server, in a minute or so: run it before each commit.
check: $(DEV)
	$(call timed,check,check-stages)

# All promises on real servers.
test: $(DEV)
	$(call timed,test,needs test-stages)

# What uses one core only, mypy, beside the tests.
check-stages: $(DEV)
	@$(MAKE) --no-print-directory --output-sync=target -j 2 lint-python test-quick

# Service tests leave a third of the processor to others; the tests that need nothing else take it, behind them, and begin while
# Rust is built. What each prints comes when it has ended.
test-stages: $(DEV)
	@$(MAKE) --no-print-directory --output-sync=target -j 4 lint-python test-service test-unit WAITS=yes BEHIND="nice -n 10"

# A test that hangs is failed by its own time-out (pyproject.toml). Whatever else hangs is interrupted, so that what it printed is seen:
# make keeps the output of a stage until the stage has ended.
LAST := timeout --foreground --signal=INT --kill-after=60

# Within `make test` each stage waits for what it runs on; alone it takes what is there.
ifdef WAITS
test-service: rust compiled
test-unit: compiled
endif

# The long form, for the night: every version, space and setting, long fuzzing, whole sweeps, mutants, and the wheel as a user installs it.
test-full: $(DEV)
	$(call timed,test-full,needs asserting code test-long mutants test-wheel)

# Tests that wait for servers three quarters of their time; six of them keep two cores busy. Only the folders that hold such tests
# are collected: each worker collects for itself. Each stage has a cache to itself, which says what failed in this run.
SERVICE := tests/apps tests/docs tests/engine tests/faults tests/history tests/native tests/serve tests/service tests/systems tests/wayback tests/workload
# Some of the other tests wait too, for programs and for seconds to pass: three of them keep two cores busy, as they must when the
# service tests have ended.
# The long form shuffles its tests; there the plug-in for it is no matter, here it would take 20 s of CPU.
IN_ORDER := -p no:randomly
test-quick:
	$(PYTEST) $(IN_ORDER) -m "not service and not slow" -n 3 --dist worksteal
UNIT_CACHE := .pytest_cache/unit
SERVICE_CACHE := .pytest_cache/service
test-unit:
	$(BEHIND) $(LAST) 2400 $(PYTEST) $(IN_ORDER) --cache-clear -o cache_dir=$(UNIT_CACHE) -m "not service" -n 3 --dist worksteal || $(BIN)/python -m tests.again $$? $(UNIT_CACHE)
test-service:
	$(LAST) 2400 $(PYTEST_SERVICE) $(IN_ORDER) --cache-clear -o cache_dir=$(SERVICE_CACHE) -m service -n 6 --dist worksteal $(SERVICE) || $(BIN)/python -m tests.again $$? $(SERVICE_CACHE)
test-long: export TRIMTAB_TESTS = full
test-long:
	$(PYTEST) --timeout=7200 -m "not service" -n 2 --dist worksteal
	$(PYTEST_SERVICE) --timeout=7200 -m service -n 3 --dist worksteal $(or $(TESTS),$(SERVICE))

# What uses one core only, mypy, beside what uses both; and all tests are compiled, which each worker would do for itself.
code: $(DEV)
	@$(MAKE) --no-print-directory --output-sync=target -j 3 lint-python rust compiled

# Whether they can be collected at all is for the stages to say.
compiled: $(DEV)
	@$(OWN) $(BIN)/python -m pytest $(IN_ORDER) -p no:cacheprovider --collect-only -q > /dev/null 2>&1 || true

test-rust:
	$(OWN) cargo test --workspace --quiet

# The binding has no tests, and is only built: together with the tests of the rest, so that what both need is compiled once.
rust:
	cargo fmt --all --check
	$(OWN) $(LINTED) cargo build --workspace --lib --tests --quiet
	$(LAST) 900 $(OWN) $(LINTED) cargo test --workspace --quiet

# Breaks the rooms that decide on purpose, place by place, and prints what their tests do not notice; MUTANTS=--all: every place.
mutants: $(DEV)
	$(BIN)/python -m tests.mutants $(MUTANTS)

# The only target that changes the machine: the servers and the browser of the tests, by apt and Maven.
servers: $(DEV)
	sh tests/install-servers.sh
	$(BIN)/python -m tests.fetch_servers

# Says what tests would need and this machine lacks. In CI (CI=true, as root) it is installed, and what is missing fails.
needs: $(DEV)
	@if [ "$$CI" = true ] && [ "$$(id -u)" -eq 0 ]; then $(MAKE) --no-print-directory servers; fi
	@$(BIN)/python -m tests.needs || echo "tests that need these are skipped; with CI=true they fail, unless tests/allowed_skips.txt allows it"

# A PostgreSQL with assertions, once, from Debian's sources: minutes of CPU.
asserting: $(DEV)
	@$(BIN)/python -m tests.build_postgresql || echo "tests in a server with assertions are skipped"

lint-python: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

lint: lint-python
	cargo fmt --all --check
	$(OWN) cargo clippy --workspace --all-targets --quiet -- -D warnings

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	cargo fmt --all

# Writes the pages that are generated from the code.
docs: $(DEV)
	$(BIN)/python docs/generate.py

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

# The load engine as a wheel has it, beside pgbench, sysbench and go-ycsb (GO_YCSB=program); about 20 minutes (BENCH=--quick: two).
bench-load: $(DEV)
	TRIMTAB_BUILD=wheel $(BIN)/maturin develop --quiet --profile wheel
	$(BIN)/python benchmarks/load/run.py $(BENCH)

# Rankers on planted truth and recorded tables, and on real servers (hours); BENCH='--part planted' runs one part.
bench-importance: $(STAMP)
	$(BIN)/python benchmarks/importance/run.py $(BENCH)

# 100,000 trials in a store: how long lists, queries, reports, imports and warm asks take; then warm starts on recorded workloads,
# where there are any; a quarter of an hour (BENCH=--quick: two minutes).
bench-history: $(STAMP)
	$(BIN)/python benchmarks/history/scale.py $(BENCH)
	$(BIN)/python benchmarks/history/warm.py $(filter --quick,$(BENCH))

# Round trips of a session, and reports a second with 100 clients; some minutes (BENCH=--quick: one).
bench-serve: $(STAMP)
	$(BIN)/python benchmarks/serve/run.py $(BENCH)

bench-sampling: $(STAMP)
	$(BIN)/python benchmarks/sampling_problem.py

# The thesis of Fernando (2016) on RUBiS and TPC-W: fourteen studies of two hours, alone on the machine; it goes on where stopped.
# In pieces: BENCH="--application rubis --objective latency_mean".
bench-fernando: $(STAMP)
	$(BIN)/python benchmarks/fernando/run.py $(BENCH)

# How many knobs are needed (Kanellis 2020): 25 minutes for each row of PostgreSQL, an hour for each of Cassandra, alone on the machine.
# In pieces: BENCH="--system cassandra --workload A"; it goes on where it was stopped.
bench-kanellis: $(STAMP)
	$(BIN)/python benchmarks/kanellis/run.py $(BENCH)

# What a restart of Cassandra and of Tomcat costs a trial, and a live change: a quarter of an hour, alone on the machine.
bench-restart: $(STAMP)
	$(BIN)/python benchmarks/restart/run.py $(BENCH)

# The six mixes of Zhou 2013, twice; half an hour each, alone on the machine, as root where a memory limit is to hold (cgroup).
# In pieces: BENCH="--mix 12q6 --experiment paper".
bench-zhou2013: $(STAMP)
	$(BIN)/python benchmarks/zhou2013/run.py $(BENCH)

# The ranks of its settings and each TPC-H query tuned inside the server (Karcher 2018, Tables 1 and 2); hours, alone on the machine.
# In pieces: BENCH="--scale 1 --query 3 13"; in less time: BENCH="--scale 3 --seconds-per-arm 15".
bench-karcher: $(STAMP)
ifdef BENCH
	$(BIN)/python benchmarks/karcher/run.py $(BENCH)
else
	$(BIN)/python benchmarks/karcher/sard.py
	$(BIN)/python benchmarks/karcher/run.py --scale 1 --rounds 30
	$(BIN)/python benchmarks/karcher/run.py --scale 3 --seconds-per-arm 15 --rounds 5
	$(BIN)/python benchmarks/karcher/table.py
endif

# What the extension costs where it has nothing to do: selects in turns with a session without it, a minute, alone on the machine.
bench-engine-overhead: $(STAMP)
	$(BIN)/python benchmarks/karcher/overhead.py --results benchmarks/karcher/overhead.json $(BENCH)

# The same in instructions under valgrind, which no other load changes; minutes.
bench-engine-instructions: $(STAMP)
	$(BIN)/python benchmarks/karcher/instructions.py --results benchmarks/karcher/instructions.json $(BENCH)

# What a tuning section of the C library costs a program; a minute.
bench-sections: $(STAMP)
	$(BIN)/python benchmarks/sections/run.py $(BENCH)

# How steady the machine is for arithmetic, memory and messages between processes; eight minutes, alone on the machine.
bench-steady: $(STAMP)
	$(BIN)/python benchmarks/steady/run.py $(BENCH)

# Six contexts that take turns, on WiredTiger and PostgreSQL: ten hours or more, alone on the machine; it goes on where it was stopped.
# BENCH="--quick" shows in minutes that it works.
bench-cgptuner: $(STAMP)
	$(BIN)/python benchmarks/cgptuner/run.py $(BENCH)

# Searchers and peers on real servers, equal wall clock; hours, alone on the machine. In pieces: BENCH="--task demo --seeds 2".
bench-live: $(STAMP) $(PEER_STAMPS)
	$(BIN)/python benchmarks/live/run.py $(BENCH)

# The package as it is released, in dist/: a wheel (abi3, manylinux as this machine's C library allows) and the sdist.
wheel: $(DEV)
	rm -rf dist
	TRIMTAB_BUILD=wheel $(BIN)/maturin build --quiet --profile wheel --locked --out dist --interpreter $(BIN)/python
	$(BIN)/maturin sdist --out dist

# Installs the wheel into an empty environment outside the repository and runs a small study there.
test-wheel: wheel
	$(BIN)/python tests/wheel/smoke.py dist --study

clean:
	rm -rf $(VENV) target dist src/trimtab/_native*.so
