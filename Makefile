# Every target makes its own environment in .venv and needs only Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: test test-cluster test-real demo table ablations lint types unit soak fuzz slow load browser bench bench-quick bench-start bench-many site notebooks release-check format clean gallery

test: lint types unit

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dpw needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $(STAMP)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

unit: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal --durations=10

# The tests on real images: make test-real DATA=FOLDER, with subsets of the public datasets in their layouts.
test-real: $(STAMP)
	@test -d "$(DATA)" || { echo "make test-real needs DATA=FOLDER, a folder of public datasets as 'dpw data get' lays them out."; exit 1; }
	DPW_REAL_DATA="$(DATA)" OMP_NUM_THREADS=1 $(BIN)/pytest -m real

# Continual learning in minutes: three methods on the embedded model and benchmark, a table and a picture.
demo: $(STAMP)
	$(BIN)/dpw run mini
	$(BIN)/dpw report runs/mini/*-seed* --output runs/mini/report.html
	@echo "Look at runs/mini/report.html (the accuracy matrix alone: runs/mini/report_files/accuracy-dpw.png)."
	@echo "Then try your own images: $(BIN)/dpw learn YOUR_FOLDER --into my-model --model mini"

# Every method on mini with three seeds, and docs/results.md from the results; may be stopped and goes on.
table: $(STAMP)
	$(BIN)/python tools/table.py

# The paper's analysis tables on mini with three seeds, and docs/ablations.md from them; may be stopped and goes on.
ablations: $(STAMP)
	$(BIN)/python tools/ablations.py

# Hundreds of kills and power cuts over six methods and `learn`; see docs/reliability.md.
soak: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 -m slow tests/runs/test_run.py tests/runs/test_run_soak.py tests/cli/test_side_by_side_soak.py

# Ray clusters of two nodes that lose workers, a node and their head; about ten minutes on a quiet machine.
test-cluster: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/pytest -m "slow or not slow" tests/cluster tests/runs/test_stages.py

# Mutated input of every kind for about an hour; the suite does the same for a minute.
fuzz: $(STAMP)
	DPW_FUZZ_EXAMPLES=4000 OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 tests/repository/test_fuzz.py

slow: $(STAMP)
	$(BIN)/pytest -m slow

# How much faster than the straightforward way, on three shapes; hours on a CPU. See docs/performance.md.
bench: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.bench

# The same on the tiny shape, in a few minutes.
bench-quick: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.bench --quick --shapes tiny

# Speed of `dpw serve` beside direct calls, then 20,000 checked requests with trouble; see docs/serve.md.
load: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.load

# How long commands take to start, and what every method costs beside plain CLIP on mini.
bench-start: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.starting
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.everyone

# 51 and 200 learned tasks on ViT-B/16: loading, first answer, memory, saving; some minutes and 4 GB of disk.
bench-many: $(STAMP)
	$(BIN)/python -m benchmarks.many

# What the tests of pages in a real browser need; chromium itself comes from the system.
browser: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[play,browser]"
	@command -v chromium || command -v chromium-browser || echo "Install chromium too, for example: apt install chromium"

# The pictures of docs/gallery.md, from runs on the embedded model and benchmark.
gallery: $(STAMP)
	$(BIN)/python tools/gallery.py

# The documentation as a folder that needs no server: open site/index.html. Every warning is an error; where a
# browser is installed, every page is looked at in it.
site: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs,browser]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir site
	$(BIN)/python tools/look_at_site.py site

# Run the notebooks of docs/notebooks and keep their outputs.
notebooks: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python tools/notebooks.py

# Wheel and sdist, built, checked, and tried in an environment of their own without the repository.
release-check: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[release]"
	OMP_NUM_THREADS=1 $(BIN)/python tools/release_check.py

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache
