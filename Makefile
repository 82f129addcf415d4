# ctsql: every job is one word. Needs Python 3.11+, Java 17+ and make; all else goes into .venv.
#
#   make demo     set up, then run the upsert and the audit-log recipe on real data
#   make test     set up, then lint, types, contracts, and the tests that say whether it works here
#   make rest     the tests that make test leaves out
#   make test-all  both: what CI runs
#   make check    the same without Java: for the edit loop
#   make venv     set up only          make slow    the tests that take minutes
#   make bench    the benchmarks       make s3      the tests on an emulation of S3
#   make versions  make test's Spark tests on Spark 4.0, 4.1 and 4.2
#   make scenarios  what users see, on the same
#   make clusters  a standalone cluster, on the same
#   make stores   on emulations of Google's and Azure's stores, and on HDFS
#   make kafka    on a Kafka broker  make browser  the status page in a headless Chromium
#   make postgres  psql, psycopg, JDBC and SQLAlchemy on ctsql serve --postgres
#   make dbt      the dbt adapter, in an environment of its own, with dbt's tests
#   make docs     the documents as a site: open build/site/index.html
#   make clean    remove what make made
#
# PYTHON=python3.12 make ...  picks the interpreter;  VENV=/some/folder  puts the environment there.

SHELL := /bin/bash
VENV ?= .venv
BIN := $(VENV)/bin
SPARK ?= 4.0 4.1 4.2
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test rest test-all check lint slow versions scenarios clusters s3 stores kafka browser postgres dbt bench docs venv java clean

help:
	@sed -n '1,/^$$/s/^# \{0,1\}//p' Makefile

venv: $(STAMP)

# The stamp is as new as pyproject.toml once everything it names is installed.
# MAKEFLAGS is cleared for pip: build backends run make of their own.
$(STAMP): export PYTHON_WANTED := $(PYTHON)
$(STAMP): pyproject.toml
	@set -u; \
	say() { printf '%s\n' "$$@" >&2; }; \
	python=; \
	for candidate in $$PYTHON_WANTED python3 python3.14 python3.13 python3.12 python3.11; do \
	  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    python=$$candidate; break; \
	  fi; \
	done; \
	if [ -z "$$python" ]; then \
	  say "ctsql needs Python 3.11 or newer; none was found." \
	      "Type: sudo apt install python3.11 python3.11-venv   (macOS: brew install python@3.12)"; \
	  exit 1; \
	fi; \
	if ! "$$python" -c 'import venv, ensurepip' 2>/dev/null; then \
	  version=$$("$$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	  say "Python $$version is here, but its venv module is not." \
	      "Type: sudo apt install python$$version-venv"; \
	  exit 1; \
	fi; \
	if ! "$(BIN)/python" -c 'import pip' 2>/dev/null; then \
	  echo "Creating $(VENV) with $$("$$python" --version)"; \
	  rm -rf "$(VENV)"; \
	  if ! problem=$$("$$python" -m venv "$(VENV)" 2>&1); then \
	    say "The virtual environment $(VENV) could not be created: $$(tail -n 1 <<<"$$problem")" \
	        "Type: VENV=/a/folder/you/can/write make venv"; \
	    exit 1; \
	  fi; \
	fi; \
	log="$(VENV)/install.log"; \
	echo "Installing ctsql and its tools into $(VENV) (the first time about 600 MB, some minutes)"; \
	if ! { MAKEFLAGS= "$(BIN)/python" -m pip install --upgrade 'pip>=25.1' && \
	       MAKEFLAGS= "$(BIN)/python" -m pip install --editable . --group dev; } >"$$log" 2>&1; then \
	  if grep -q -i -E 'connection|resolve|timed out|proxy|ssl|no matching distribution' "$$log"; then \
	    say "pip could not fetch what ctsql needs: the package index did not answer." \
	        "Check the network; behind a proxy type: HTTPS_PROXY=http://host:port make venv"; \
	  else \
	    say "pip could not install ctsql: $$(grep -i '^ *error' "$$log" | tail -n 1)" \
	        "Type: make clean venv"; \
	  fi; \
	  say "What pip said is in $$log"; \
	  exit 1; \
	fi; \
	touch "$@"

# Asked before anything is installed: the check needs only Python's standard library.
java:
	@for candidate in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11; do \
	  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    exec "$$candidate" -m ctsql.runtime.spark.start.environment; \
	  fi; \
	done

demo: java venv
	@"$(BIN)/python" -m examples.demo

# Cheap first, stop at the first red.
lint: venv
	@"$(BIN)/ruff" format --check --quiet . || \
	  { echo "Some files are not formatted. Type: $(BIN)/ruff format ." >&2; exit 1; }
	@"$(BIN)/ruff" check --quiet .
	@"$(BIN)/mypy"
	@"$(BIN)/lint-imports" --no-logo

check: lint
	@"$(BIN)/python" -m pytest -m "not spark and not slow" -n auto

# Tests start ctsql some hundred times. Without bytecode each start compiles all of it again.
check test rest slow versions scenarios clusters s3 stores kafka browser postgres: export PYTHONDONTWRITEBYTECODE :=

# A Spark test waits for its driver more than it computes: two processes fill two cores.
test: java lint
	@"$(BIN)/python" -m pytest -m "not spark and not thorough and not slow" -n auto
	@"$(BIN)/python" -m pytest -m "spark and core and not slow" -n 2 --dist loadfile

rest: java venv
	@"$(BIN)/python" -m pytest -m "(thorough or spark) and not core and not slow" -n 2 --dist loadfile

test-all: test rest

slow: java venv
	@"$(BIN)/python" -m pytest -m "slow and not s3 and not stores and not kafka and not browser"

# An environment each, with the newest patch. SPARK=4.0 make versions  takes one only.
PYTEST = "$(VENV)-$$spark/bin/python" -m pytest
versions: TESTS = $(PYTEST) -m "spark and core and not slow" -n 2 --dist loadfile
scenarios: TESTS = $(PYTEST) tests/scenarios/test_scenarios.py -n 2
clusters: TESTS = $(PYTEST) -m slow tests/spark/engine/test_cluster.py
versions scenarios clusters: java
	@mkdir -p build
	@set -e; for spark in $(SPARK); do \
	  echo "pyspark~=$$spark.0" >build/spark-$$spark.txt; \
	  PIP_CONSTRAINT="$$PWD/build/spark-$$spark.txt" $(MAKE) venv VENV="$(VENV)-$$spark"; \
	  "$(VENV)-$$spark/bin/ctsql" --version; \
	  $(TESTS); \
	done

# Spark fetches its connector for S3 at the first start: 700 MB.
s3: java venv
	@MAKEFLAGS= "$(BIN)/python" -m pip install --quiet --group s3
	@"$(BIN)/python" -m pytest -m s3

# npm brings the emulation of Azure's store; Maven HDFS and the connectors: 250 MB.
stores: java venv
	@MAKEFLAGS= "$(BIN)/python" -m pip install --quiet --group stores
	@npm install --silent --no-fund --no-audit --prefix "$(VENV)/azurite" azurite
	@"$(BIN)/python" -m pytest -m stores

# Maven fetches a broker, and Spark its connector: 60 MB.
kafka: java venv
	@"$(BIN)/python" -m pytest -m kafka

# The browser is the system's: no download. The tests say what to type if there is none.
browser: java venv
	@MAKEFLAGS= "$(BIN)/python" -m pip install --quiet --group browser
	@"$(BIN)/python" -m pytest -m browser

# psql is the system's; Maven fetches the driver for JDBC.
postgres: PACKAGE = integrations/ctsql-postgres
postgres: java venv
	@MAKEFLAGS= "$(BIN)/python" -m pip install --quiet --editable $(PACKAGE) --group $(PACKAGE)/pyproject.toml:test
	@mvn -q dependency:copy -Dartifact=org.postgresql:postgresql:42.7.4 -DoutputDirectory="$$PWD/build/pgjdbc"
	@PYTHONPATH=$(PACKAGE)/tests PGJDBC="$$PWD/build/pgjdbc/postgresql-42.7.4.jar" \
	  "$(BIN)/python" -m pytest $(PACKAGE)/tests

# dbt-core's parser is a wheel on PyPI, or a download from elsewhere that need not be reachable.
dbt: java
	@test -x "$(VENV)-dbt/bin/python" || $(or $(PYTHON),python3) -m venv "$(VENV)-dbt"
	@MAKEFLAGS= "$(VENV)-dbt/bin/python" -m pip install --quiet --upgrade 'pip>=25.1'
	@cd integrations/dbt-ctsql && MAKEFLAGS= "$(abspath $(VENV)-dbt)/bin/python" -m pip install --quiet \
	  --only-binary dbt-core-experimental-parser --editable ../.. . --group test
	@cd integrations/dbt-ctsql && "$(abspath $(VENV)-dbt)/bin/python" -m pytest -q

bench: java venv
	@MAKEFLAGS= "$(BIN)/python" -m pip install --quiet --group bench
	@"$(BIN)/python" -m benchmarks.start
	@"$(BIN)/python" -m benchmarks.tick
	@"$(BIN)/python" -m benchmarks.sql_tests
	@"$(BIN)/python" -m benchmarks.growth
	@"$(BIN)/python" -m benchmarks.fanout
	@"$(BIN)/python" -m benchmarks.imports
	@"$(BIN)/python" -m benchmarks.replicas
	@"$(BIN)/python" -m benchmarks.observing
	@"$(BIN)/python" -m benchmarks.status_page
	@"$(BIN)/python" -m benchmarks.tasks
	@"$(BIN)/python" -m benchmarks.views --pipelines
	@"$(BIN)/python" -m benchmarks.views --groups
	@"$(BIN)/python" -m benchmarks.time_views

# Strict: a link or an anchor that leads nowhere ends it.
docs: venv
	@MAKEFLAGS= "$(BIN)/python" -m pip install --quiet --group docs
	@"$(BIN)/python" docs/site/stage.py
	@"$(BIN)/zensical" build --strict --clean

clean:
	rm -rf "$(VENV)" "$(VENV)"-* build dist ctsql.egg-info demo-warehouse spark-warehouse metastore_db derby.log
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .grimp_cache .cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
