# Needs Python 3.11 or later and make; everything else is installed into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# A run decides the same on every machine: no price list, model or telemetry is fetched, no answer comes from a
# cache outside the project.
export LITELLM_LOCAL_MODEL_COST_MAP := True
export HF_HUB_OFFLINE := 1
export MLFLOW_DISABLE_TELEMETRY := true
export DSPY_CACHEDIR := $(CURDIR)/.cache/dspy
# Compiled files are kept whatever the surroundings say: without them each of a hundred processes compiles every library.
export PYTHONDONTWRITEBYTECODE :=

QUICKSTART := optimize/programs/quickstart
SUPPORT := optimize/programs/support
TEXT ?= where is my order? it should have been here on Monday

.PHONY: help setup setup-dev quickstart test test-long lint format types imports signatures rows size mutants bench bench-routing bench-learning bench-understanding bench-prompts bench-compiled bench-reports bench-answers bench-enhancement bench-optimize bench-compare bench-evaluate bench-first-hour chaos report install-size build clean

help:
	@echo "make quickstart   compile a small program, compare it, and decide one turn"
	@echo "make report       compile the shipped program with the full recipe and write its report"
	@echo "make test         all tests but the long ones;  make rows  what they prove;  make bench  measurements"
	@echo "make size         how large the package is, and how much of it one turn enters; fails above tools/ceiling.toml"
	@echo "make test-long    the few tests that take a quarter of a minute or more each, and bench-routing's short run"
	@echo "make mutants      one seeded mistake per row, which its tests must notice"
	@echo "make bench-routing  the flow router on public data, beside other routers (ROUTING=--short: ten minutes)"
	@echo "make bench-understanding  how well messages are understood, beside the targets (a quarter of an hour)"
	@echo "make bench-compiled  what compiling the prompts gains where labels follow another guide"
	@echo "make bench-prompts  tokens that a language model is sent for a turn, beside DSPy's own adapters"
	@echo "make bench-reports  turns that people complain about, without a language model"
	@echo "make bench-answers  right and wrong answers of a language model, and which a program uses"
	@echo "make bench-enhancement  sentiment, changes of topic and entities, without a language model"
	@echo "make bench-learning  what labelled conversations bring over the base program, by their number"
	@echo "make bench-optimize  what evaluating costs, and whether comparisons keep what they promise"
	@echo "make bench-first-hour  compiling with a hosted language model: how long it takes, and what outages do"
	@echo "make chaos        50,000 turns on a real Redis while workers, connections, records and the primary fail"
	@echo "make lint types imports   the other checks;  make format  fixes the style"
	@echo "make install-size  what each extra takes, measured in fresh environments"
	@echo "make signatures   write what a language model is sent into signatures/"
	@echo "make build        the wheels in dist/;  make clean  removes what was generated"

# Two stamps, so that quickstart need not wait for the tools of development.
setup: $(VENV)/.installed
setup-dev: $(VENV)/.installed-dev

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.x")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml tools/install.py | $(BIN)/python
	$(BIN)/python tools/install.py langgraph,optimize,local
	@touch $@

$(VENV)/.installed-dev: pyproject.toml conformance/pyproject.toml tools/install.py tools/no-deps-dev.txt | $(BIN)/python
	$(BIN)/python tools/install.py langgraph,optimize,local,redact,sql,dev
	@touch $(VENV)/.installed $@

quickstart: setup
	$(BIN)/jazzmine-dspy optimize optimize/recipes/quickstart.toml --out $(QUICKSTART)
	$(BIN)/jazzmine-dspy decide $(QUICKSTART) --text "$(TEXT)"

report: setup
	$(BIN)/jazzmine-dspy optimize optimize/recipes/support.toml --out $(SUPPORT)
	rm -rf eval/reports/support && mkdir -p eval/reports && cp -r $(SUPPORT)/report eval/reports/support
	$(BIN)/jazzmine-dspy report eval/reports/support
	$(BIN)/python tools/readme.py

# Two processes; the tests of a file stay together. One process: make test WORKERS=0
WORKERS ?= 2

test: setup-dev
	$(BIN)/pytest -n $(WORKERS) --dist loadfile

# What takes a quarter of a minute or more by itself; every row has other tests.
test-long: setup-dev
	$(BIN)/pytest -m long

lint: setup-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

format: setup-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: setup-dev
	$(BIN)/mypy --strict

imports: setup-dev
	$(BIN)/lint-imports --no-cache

signatures: setup-dev
	$(BIN)/python tools/signatures.py

rows: setup-dev
	$(BIN)/python tools/rows.py

size: setup-dev
	$(BIN)/python tools/size.py --trace support --check

# The sample of every change: make mutants MUTANTS=--ci; one row: make mutants MUTANTS="--row E5"
MUTANTS ?=

mutants: setup-dev
	$(BIN)/python tools/mutants.py $(MUTANTS)

# Further settings: make chaos CHAOS="--turns 5000 --server redis-6.2 --json"
CHAOS ?= --turns 50000 --workers 8 --seed 1 --failover-every 5000

chaos: setup-dev
	$(BIN)/python tools/chaos.py $(CHAOS) --out .cache/chaos.txt

bench: setup-dev
	@mkdir -p .cache
	$(BIN)/pytest -m bench --benchmark-json .cache/bench.json --benchmark-save-data $(wildcard eval/benchmarks)
	$(BIN)/python tools/bench.py .cache/bench.json

# Ten minutes: make bench-routing ROUTING=--short. Some sets: make bench-routing ROUTING="--only banking77,hint3 --quick"
ROUTING ?=

bench-routing: setup-dev
	$(BIN)/python tools/bench_routing.py $(if $(ROUTING),$(ROUTING),--docs)

# Some registries: make bench-learning LEARNING="--only vet,cinema --draws 2"
LEARNING ?=

bench-learning: setup-dev
	$(BIN)/python tools/bench_learning.py $(if $(LEARNING),$(LEARNING),--docs)

# Some sections: make bench-understanding UNDERSTANDING="--only without,values"
UNDERSTANDING ?=

bench-understanding: setup-dev
	$(BIN)/python tools/bench_understanding.py $(if $(UNDERSTANDING),$(UNDERSTANDING),--docs)

# What each adapter sends: make bench-prompts PROMPTS="--requests FOLDER"
PROMPTS ?=

bench-prompts: setup-dev
	$(BIN)/python tools/bench_prompts.py $(if $(PROMPTS),$(PROMPTS),--docs)

# What compiling gains, from recorded answers. One of them: make bench-compiled COMPILED=marina
COMPILED ?= --docs

bench-compiled: setup-dev
	$(BIN)/python tools/bench_compiled.py $(COMPILED)

bench-reports: setup-dev
	$(BIN)/python tools/bench_reports.py $(REPORTS)

# The cases too: make bench-answers ANSWERS=--list
bench-answers: setup-dev
	$(BIN)/python tools/bench_answers.py $(ANSWERS)

# Other parts: make bench-enhancement ENHANCEMENT="--parts dev_a,dev_b"
bench-enhancement: setup-dev
	$(BIN)/python tools/bench_enhancement.py $(ENHANCEMENT)

# Every measurement of docs/optimization.md; each has a command of its own too.
bench-optimize: bench-compare bench-evaluate
	JAZZMINE_KILLS=10 $(BIN)/pytest -s -q -k killed tests/optimize/test_resume.py

# Ten minutes; a quick look: make bench-compare COMPARE="--repeats 50"
COMPARE ?= --docs

bench-compare: setup-dev
	$(BIN)/python tools/bench_compare.py $(COMPARE)

# Ten minutes; a quick look: make bench-evaluate EVALUATE="--turns 1000 --passes 1"
EVALUATE ?= --docs

bench-evaluate: setup-dev
	$(BIN)/python tools/bench_evaluate.py $(EVALUATE)

# Nine minutes; a quick look: make bench-first-hour HOUR=--quick
HOUR ?=

bench-first-hour: setup-dev
	$(BIN)/python tools/bench_first_hour.py $(HOUR)

# Ten minutes; some of them: make install-size EXTRAS="optimize,local sql"
EXTRAS ?= --docs

install-size: setup-dev
	$(BIN)/python tools/install_size.py $(EXTRAS)

build: setup-dev
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist . ./conformance

clean:
	rm -rf .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .benchmarks dist $(QUICKSTART)
