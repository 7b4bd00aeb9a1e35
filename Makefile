# The front door. Everything below works without root; see the first line of README.md.
#   make demo    a real server, a granted call, its CVE stopped, the audit of both
#   make test    the whole test suite
#   make vmtest  kernel tests and victims on Debian's 6.1 and 6.12, booted in QEMU (needs qemu-system-x86, busybox-static, cpio)
#   make check   lint, format, types, import contracts
#   make bench   ratios against bare, bubblewrap, strace and others
#   make tcb     how many lines have to be right
#   make lock    renew requirements-dev.txt (needs uv)

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
ARGS   ?=

.PHONY: demo test vmtest check bench tcb lock clean python
.DELETE_ON_ERROR:

demo: python
	@$(PYTHON) examples/demo.py

test: $(VENV)/installed
	$(BIN)/python -m pytest $(ARGS)

vmtest: $(VENV)/installed
	$(BIN)/python -m tests.vm $(ARGS)

check: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/installed
	$(BIN)/python -m bench $(ARGS)

# What must be right for the promise to hold: what decides, what confines, what acts for the server, and what its bytes
# leave by. All lines, then those that are neither blank nor comment. (bubblewrap, which does a part of it, has 5,523
# lines of C.)
tcb:
	@for room in policy kernel sandbox broker egress; do \
	  cat mcpwrap/$$room/*.py | awk -v room=$$room '{ n++ } !/^[[:space:]]*(#|$$)/ { c++ } END { print n, c, room }'; \
	done | awk '{ printf "%6d %6d  %s\n", $$1, $$2, $$3; n += $$1; c += $$2 } END { printf "%6d %6d  trusted base\n", n, c }'

lock:
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  --extra dev pyproject.toml > requirements-dev.new
	(echo "# Locked by \`make lock\` from pyproject.toml's dev extra. Do not edit by hand."; \
	  cat requirements-dev.new) > requirements-dev.txt
	rm requirements-dev.new

clean:
	rm -rf $(VENV) .demo .vm dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "mcpwrap needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	@$(PYTHON) -c 'import ensurepip, venv' || { echo "apt-get install python3-venv" >&2; exit 1; }

$(VENV)/installed: requirements-dev.txt pyproject.toml bin/mcpwrap | python
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
