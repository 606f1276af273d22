# What can be asked of a checkout? `make help` lists it. Every target first sets up .venv.

PROFILE ?= quick
WORKERS ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
RESULTS ?= results/local
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$p && break; done)

BIN := .venv/bin
READY := .venv/.ready
RUN = $(BIN)/opd run $(1) --profile $(PROFILE) --workers $(WORKERS) --results $(RESULTS)

.PHONY: help setup ablate-all tables figures report reference test check \
	bench bench-check bench-peers bench-gpu FORCE
.DEFAULT_GOAL := help

help:  ## this list; variables: PROFILE (smoke, quick, paper), WORKERS (cores), RESULTS (folder)
	@sed -n 's/^\([a-zA-Z%-]*\):[^#]*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) \
	| sed 's/^ablate-%/ablate-NAME/' | awk -F'\t' '{ printf "make %-12s  %s\n", $$1, $$2 }'

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer with venv is needed; set PYTHON=" >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e '.[dev]'
	$(BIN)/opd doctor
	@touch $@

setup: $(READY)  ## make or renew .venv; every other target does this by itself

ablate-all: $(READY)  ## run what RESULTS lacks of all ablations; write tables and figures
	$(call RUN,all)

ablate-%: $(READY) FORCE  ## the same for one ablation (`.venv/bin/opd list` names them)
	$(call RUN,$*)

tables: $(READY)  ## make the tables again from the runs
	$(BIN)/opd tables --results $(RESULTS)

figures: $(READY)  ## draw the figures again from the runs
	$(BIN)/opd figures --results $(RESULTS)

report: $(READY)  ## one page of everything in RESULTS
	$(BIN)/opd report --results $(RESULTS)

reference: $(READY)  ## for maintainers: add to the published results
	$(MAKE) ablate-all RESULTS=results/reference

test: $(READY)  ## all tests, on one thread and offline
	OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 $(BIN)/pytest -q --benchmark-disable

check: $(READY)  ## ruff, formatting, mypy --strict
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: $(READY)  ## time the losses beside their floor: one table, in RESULTS/bench
	OMP_NUM_THREADS=1 $(BIN)/python -m harness.bench.table --results $(RESULTS)

bench-check: $(READY)  ## fail where a loss became slower than its committed baseline
	OMP_NUM_THREADS=1 $(BIN)/python -m harness.bench.gate

bench-peers: $(READY)  ## the same table with Liger and TRL, in an environment of their own
	OMP_NUM_THREADS=1 $(BIN)/python -m harness.bench.peers --results $(RESULTS)

bench-gpu: $(READY)  ## on a CUDA machine: build, check and time, in five minutes
	$(BIN)/python -m harness.bench.gpu
